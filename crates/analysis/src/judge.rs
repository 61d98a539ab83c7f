//! The rules: from who met whom to a verdict.
//!
//! 1. A pair of opposing slots counts if it met on at least [`ENOUGH_OCCASIONS`] occasions. A line without such a pair
//!    is no finding: read-only lines, one thread's lines, phases, hand-overs and reused addresses all end here.
//! 2. Overlapping bytes: true sharing. Disjoint bytes: false sharing, unless one of the two comes to the line for bytes
//!    that the other's thread uses about as much as those where they were seen: then the line travels for these anyway,
//!    and the threads were merely seen at different places of what they share (a buffer handed over, a lock and its
//!    data, an index and its owner's notes beside it). See [`explained`].
//! 3. A truly shared range is *two-way* if both threads write it, else *one-way*: one writes what the other reads, which
//!    is communication. Of a slot's samples, as many as it can have met at shared bytes at most count as true sharing,
//!    the others as false. Of a one-way pair only the reader's samples count: the writer need not wait.
//!    If both kinds have samples, the line is mixed, unless the true part is small: below [`SMALL_PART`], or below
//!    [`SMALL_ONE_WAY_PART`] if all of it is one-way. A peek at the other side's index does not make a ring mixed.
//! 4. A truly shared line with a word that two threads change by atomic read-modify-write, and other words that only
//!    those threads touch, not atomically, and change, is a lock and its data.

use hitm_model::Verdict;

use crate::meet::{Meeting, Meetings, Slot};

/// On so many occasions (windows of time) a pair must have met before it counts.
pub const ENOUGH_OCCASIONS: u64 = 3;

/// The part of the samples, from 0 to 1, below which the lesser kind of sharing is neglected.
pub const SMALL_PART: f64 = 0.04;

/// The same for true sharing that is one-way.
pub const SMALL_ONE_WAY_PART: f64 = 0.2;

/// Two threads use a range about equally if the lesser has at least this part of the other's samples there.
const ABOUT_EQUAL: f64 = 0.5;

/// What the rules say of one line.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The verdict; `None` is no finding.
    pub verdict: Option<Verdict>,
    /// The slots that take part: their indices, in order.
    pub participants: Vec<usize>,
    /// Of each participant, the samples in which it can have been held up by the others at most: its own, but no more
    /// than its opponents have at the line. A hot writer beside a rare reader is held up rarely. It does not depend on
    /// how much of the time they happened to run side by side.
    pub contended: Vec<u64>,
    /// Whether the true sharing, if there is any, is one-way: one thread writes what others read.
    pub one_way: bool,
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
    let mut opponents = vec![0; slots.len()];
    for pair in &counting {
        let (p, q) = (&slots[pair.p], &slots[pair.q]);
        let shared = p.range.overlaps(q.range) || explained(slots, p, q) || explained(slots, q, p);
        let two_way = shared && writes_there(slots, p, q) && writes_there(slots, q, p);
        for side in [pair.p, pair.q] {
            weights[side].add(pair.weight, shared, two_way, slots[side].writes());
        }
        opponents[pair.p] += q.samples;
        opponents[pair.q] += p.samples;
    }
    let participants: Vec<usize> = (0..slots.len()).filter(|&i| opponents[i] > 0).collect();
    let mut sums = Weights::default();
    let mut contended = Vec::with_capacity(participants.len());
    for &i in &participants {
        let parts = weights[i].within(slots[i].samples);
        sums.two_way += parts.two_way;
        sums.one_way += parts.one_way;
        sums.disjoint += parts.disjoint;
        contended.push(opponents[i].min(slots[i].samples));
    }
    let verdict = verdict(&sums).map(|verdict| {
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
        one_way: sums.two_way == 0,
    }
}

/// What a slot met at most, in samples, by the kind of pair.
#[derive(Clone, Copy, Default)]
struct Weights {
    two_way: u64,
    one_way: u64,
    disjoint: u64,
}

impl Weights {
    fn add(&mut self, weight: u64, shared: bool, two_way: bool, writes: bool) {
        match (shared, two_way, writes) {
            (false, ..) => self.disjoint += weight,
            (true, true, _) => self.two_way += weight,
            (true, false, false) => self.one_way += weight,
            // The writer of a one-way pair need not wait.
            (true, false, true) => {}
        }
    }

    /// Each sample counted once, for the first kind that has a claim on it.
    fn within(&self, samples: u64) -> Self {
        let mut left = samples;
        let mut take = |wanted: u64| {
            let taken = wanted.min(left);
            left -= taken;
            taken
        };
        Self {
            two_way: take(self.two_way),
            one_way: take(self.one_way),
            disjoint: take(self.disjoint),
        }
    }
}

fn verdict(sums: &Weights) -> Option<Verdict> {
    let shared = sums.two_way + sums.one_way;
    let total = shared + sums.disjoint;
    if total == 0 {
        return None;
    }
    let true_part = shared as f64 / total as f64;
    let small = if sums.two_way as f64 / (total as f64) < SMALL_PART {
        SMALL_ONE_WAY_PART
    } else {
        SMALL_PART
    };
    Some(if true_part < small {
        Verdict::FalseSharing
    } else if true_part > 1.0 - SMALL_PART {
        Verdict::TrueSharing
    } else {
        Verdict::Mixed
    })
}

/// Whether the thread of `own` writes the range of `own` or of `other` as a habit, not once.
fn writes_there(slots: &[Slot], own: &Slot, other: &Slot) -> bool {
    let at_them = |slot: &&Slot| {
        slot.thread == own.thread
            && (slot.range.overlaps(own.range) || slot.range.overlaps(other.range))
    };
    let all: u64 = slots.iter().filter(at_them).map(|slot| slot.samples).sum();
    let writes: u64 = slots
        .iter()
        .filter(at_them)
        .filter(|slot| slot.writes())
        .map(|slot| slot.samples)
        .sum();
    writes as f64 >= SMALL_PART * all as f64
}

/// Whether `own` meets the other's thread at its own bytes about as much as it meets it at `other`'s: the other's thread
/// has a slot there that opposes `own`, with about as many samples as `other`.
fn explained(slots: &[Slot], own: &Slot, other: &Slot) -> bool {
    let there: u64 = slots
        .iter()
        .filter(|slot| slot.thread == other.thread && slot.range.overlaps(own.range))
        .filter(|slot| slot.writes() || own.writes())
        .map(|slot| slot.samples)
        .sum();
    there as f64 >= ABOUT_EQUAL * other.samples as f64
}

fn is_lock_and_data(slots: &[Slot], participants: &[usize]) -> bool {
    let parts = || participants.iter().map(|&i| &slots[i]);
    parts().filter(|lock| lock.kinds.atomic()).any(|lock| {
        let holders: Vec<_> = parts()
            .filter(|slot| slot.range.overlaps(lock.range) && slot.kinds.atomic())
            .map(|slot| slot.thread)
            .collect();
        let data: Vec<_> = parts()
            .filter(|slot| !slot.range.overlaps(lock.range))
            .collect();
        holders.iter().any(|&thread| thread != holders[0])
            && data.iter().any(|slot| slot.writes())
            && data
                .iter()
                .all(|slot| !slot.kinds.atomic() && holders.contains(&slot.thread))
    })
}
