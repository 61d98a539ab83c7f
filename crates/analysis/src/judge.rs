//! The rules: from who met whom to a verdict.
//!
//! 1. A pair of opposing slots counts if it met on at least [`ENOUGH_OCCASIONS`] occasions. A line without such a pair
//!    is no finding: read-only lines, one thread's lines, phases, hand-overs and reused addresses all end here.
//! 2. Overlapping bytes: true sharing. Disjoint bytes: false sharing, unless each of the two threads uses *both* ranges
//!    about as much as the other does: then the data is shared and the threads were merely seen at different places of
//!    it (a buffer handed over, a lock and its data). See [`shares`].
//! 3. Of a slot's samples, as many as it can have met at shared bytes at most count as true sharing, the others as
//!    false. If both kinds have samples, the line is mixed. [`SMALL_PART`] is how much the lesser kind may have and
//!    still be neglected: a peek at the neighbour's field now and then does not make false sharing mixed.
//! 4. A truly shared line with a word that two threads change by atomic read-modify-write, and other words that only
//!    those threads touch, and not atomically, is a lock and its data.

use hitm_model::Verdict;

use crate::meet::{Meeting, Meetings, Slot};

/// On so many occasions (windows of time) a pair must have met before it counts.
pub const ENOUGH_OCCASIONS: u64 = 3;

/// The part of the samples, from 0 to 1, below which the lesser kind of sharing is neglected.
pub const SMALL_PART: f64 = 0.04;

/// Two threads use a range about equally if the lesser has at least this part of the other's samples there.
const ABOUT_EQUAL: f64 = 0.25;

/// What the rules say of one line.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The verdict; `None` is no finding.
    pub verdict: Option<Verdict>,
    /// The slots that take part: their indices, in order.
    pub participants: Vec<usize>,
    /// Of each participant, the samples in which it can have been held up by the others at most: its own samples near
    /// them, and no more than they have near it. A hot writer beside a rare reader is held up rarely.
    pub contended: Vec<u64>,
    /// Of the participants' samples, those that met others at shared bytes: at most their weight against these.
    pub true_samples: u64,
    /// The others, that met at disjoint bytes only.
    pub false_samples: u64,
}

/// Applies the rules to a line.
#[must_use]
pub fn judge(meetings: &Meetings) -> Judgement {
    let slots = &meetings.slots;
    let counting: Vec<&Meeting> = meetings
        .pairs
        .iter()
        .filter(|pair| pair.occasions >= ENOUGH_OCCASIONS)
        .collect();
    let mut weights = vec![Weights::default(); slots.len()];
    for pair in &counting {
        let (p, q) = (&slots[pair.p], &slots[pair.q]);
        let shared = p.range.overlaps(q.range) || (shares(slots, p, q) && shares(slots, q, p));
        for side in [pair.p, pair.q] {
            let weights = &mut weights[side];
            *(if shared {
                &mut weights.shared
            } else {
                &mut weights.disjoint
            }) += pair.weight;
        }
    }
    let participants: Vec<usize> = (0..slots.len())
        .filter(|&i| weights[i].shared + weights[i].disjoint > 0)
        .collect();
    let (mut true_samples, mut false_samples) = (0, 0);
    let mut contended = Vec::with_capacity(participants.len());
    for &i in &participants {
        let shared = weights[i].shared.min(slots[i].samples);
        let disjoint = weights[i].disjoint.min(slots[i].samples - shared);
        true_samples += shared;
        false_samples += disjoint;
        contended.push(shared + disjoint);
    }
    let verdict = verdict(false_samples, true_samples).map(|verdict| {
        if verdict == Verdict::TrueSharing && is_lock_and_data(slots, &participants) {
            Verdict::LockAndData
        } else {
            verdict
        }
    });
    Judgement {
        verdict,
        participants,
        contended,
        true_samples,
        false_samples,
    }
}

/// What a slot met at most, in samples.
#[derive(Clone, Copy, Default)]
struct Weights {
    shared: u64,
    disjoint: u64,
}

fn verdict(false_samples: u64, true_samples: u64) -> Option<Verdict> {
    let total = false_samples + true_samples;
    if total == 0 {
        return None;
    }
    let true_part = true_samples as f64 / total as f64;
    Some(if true_part < SMALL_PART {
        Verdict::FalseSharing
    } else if true_part > 1.0 - SMALL_PART {
        Verdict::TrueSharing
    } else {
        Verdict::Mixed
    })
}

/// Whether the other thread uses the range of `own` about as much as `own`'s thread does.
fn shares(slots: &[Slot], own: &Slot, other: &Slot) -> bool {
    let used_by = |thread| -> u64 {
        slots
            .iter()
            .filter(|slot| slot.thread == thread && slot.range.overlaps(own.range))
            .map(|slot| slot.samples)
            .sum()
    };
    let (mine, theirs) = (used_by(own.thread), used_by(other.thread));
    theirs as f64 >= ABOUT_EQUAL * mine as f64
}

fn is_lock_and_data(slots: &[Slot], participants: &[usize]) -> bool {
    let parts = || participants.iter().map(|&i| &slots[i]);
    parts().any(|lock| {
        let holders: Vec<_> = parts()
            .filter(|slot| slot.range.overlaps(lock.range) && slot.kinds.atomic())
            .map(|slot| slot.thread)
            .collect();
        let mut data = parts()
            .filter(|slot| !slot.range.overlaps(lock.range))
            .peekable();
        let two_holders = holders.iter().any(|&thread| thread != holders[0]);
        lock.kinds.atomic()
            && two_holders
            && data.peek().is_some()
            && data.all(|slot| !slot.kinds.atomic() && holders.contains(&slot.thread))
    })
}
