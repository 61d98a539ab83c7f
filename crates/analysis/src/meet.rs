//! Who met whom on a line.
//!
//! A *slot* is a thread's reads, or its writes, of one byte range of the line. Two slots of different threads of which
//! at least one writes *oppose* each other. A sample of slot p is *near* slot q if q has a sample within the window
//! before or behind it, and it *met* q if q has one on both sides:
//!
//! ```text
//!   p:  ────────●────────        near q, met q: q was at the line before and again after
//!   q:  ─────●─────●─────
//!
//!   p:  ──●──●──●────────        near q at most at the border, never met: a hand-over, a phase,
//!   q:  ────────────●──●──       or memory that was freed and given to another thread
//! ```
//!
//! Meeting on both sides is what tells sharing from handing over. It depends on how often both are at the line, not on
//! the sampling rate, since the window is a number of sampling periods.

use hitm_model::{AccessKinds, ByteRange, Nanos, ThreadId};
use rustc_hash::FxHashMap;

use crate::touch::Touch;

/// More slots than this on one line are not compared: those with the fewest samples are left out.
const MOST_SLOTS: usize = 1024;

/// A thread's reads, or its writes, of one byte range of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Whose.
    pub thread: ThreadId,
    /// Which bytes.
    pub range: ByteRange,
    /// How; either it contains no write, or nothing but writes.
    pub kinds: AccessKinds,
    /// Samples that show it, each counted once.
    pub samples: u64,
    /// Of these, samples that met an opponent at disjoint bytes.
    pub met_disjoint: u64,
    /// Of these, samples that met an opponent at overlapping bytes.
    pub met_overlapping: u64,
    /// Of these, samples that met any opponent.
    pub met: u64,
    /// Of the ones that met, those with the opponent on another processor.
    pub met_on_other_cpu: u64,
}

impl Slot {
    /// Whether it writes.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.kinds.writes()
    }
}

/// Two opposing slots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// One of them: an index into [`Meetings::slots`].
    pub p: usize,
    /// The other.
    pub q: usize,
    /// How often they can have met at most: the lesser of p's samples near q and q's samples near p.
    pub weight: u64,
    /// Samples of either that met the other.
    pub met: u64,
}

/// All slots of a line and which of them met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meetings {
    /// The slots, in order of address, then thread.
    pub slots: Vec<Slot>,
    /// The opposing pairs that were near each other at all.
    pub pairs: Vec<Meeting>,
}

/// The samples of one slot in order of time.
#[derive(Default)]
struct Times {
    at: Vec<u64>,
    cpu: Vec<u32>,
    flags: Vec<u8>,
}

const DISJOINT: u8 = 1;
const OVERLAPPING: u8 = 2;
const OTHER_CPU: u8 = 4;

/// Finds out who met whom among the touches of one line, given in order of time.
#[must_use]
pub fn meetings(touches: &[Touch], window: Nanos) -> Meetings {
    let (mut slots, mut times) = slots_of(touches);
    let mut pairs = Vec::new();
    for p in 0..slots.len() {
        for q in p + 1..slots.len() {
            if slots[p].thread == slots[q].thread || !(slots[p].writes() || slots[q].writes()) {
                continue;
            }
            let kind = if slots[p].range.overlaps(slots[q].range) {
                OVERLAPPING
            } else {
                DISJOINT
            };
            let (left, right) = times.split_at_mut(q);
            let (tp, tq) = (&mut left[p], &mut right[0]);
            let (near_p, met_p) = against(tp, tq, window, kind);
            let (near_q, met_q) = against(tq, tp, window, kind);
            if near_p.min(near_q) > 0 {
                pairs.push(Meeting {
                    p,
                    q,
                    weight: near_p.min(near_q),
                    met: met_p + met_q,
                });
            }
        }
    }
    for (slot, times) in slots.iter_mut().zip(&times) {
        let count = |mask: u8| {
            times
                .flags
                .iter()
                .filter(|&&flags| flags & mask != 0)
                .count() as u64
        };
        slot.met_disjoint = count(DISJOINT);
        slot.met_overlapping = count(OVERLAPPING);
        slot.met = count(DISJOINT | OVERLAPPING);
        slot.met_on_other_cpu = count(OTHER_CPU);
    }
    Meetings { slots, pairs }
}

fn slots_of(touches: &[Touch]) -> (Vec<Slot>, Vec<Times>) {
    let mut index = FxHashMap::default();
    let mut slots: Vec<(Slot, Times)> = Vec::new();
    for touch in touches {
        let writes = touch.kind.writes();
        let number = *index
            .entry((touch.thread, touch.range, writes))
            .or_insert_with(|| {
                slots.push((
                    Slot {
                        thread: touch.thread,
                        range: touch.range,
                        kinds: AccessKinds::NONE,
                        samples: 0,
                        met_disjoint: 0,
                        met_overlapping: 0,
                        met: 0,
                        met_on_other_cpu: 0,
                    },
                    Times::default(),
                ));
                slots.len() - 1
            });
        let (slot, times) = &mut slots[number];
        slot.kinds = slot.kinds.with(touch.kind);
        // Several instructions of one block may touch the same bytes: that is one sample.
        if times.at.last() != Some(&touch.at.0) {
            slot.samples += 1;
            times.at.push(touch.at.0);
            times.cpu.push(touch.cpu);
            times.flags.push(0);
        }
    }
    if slots.len() > MOST_SLOTS {
        slots.sort_by_key(|(slot, _)| std::cmp::Reverse(slot.samples));
        slots.truncate(MOST_SLOTS);
    }
    slots.sort_by_key(|(slot, _)| (slot.range, slot.thread, slot.writes()));
    slots.into_iter().unzip()
}

/// How many samples of `own` are near `other`, and how many met it; those are marked.
fn against(own: &mut Times, other: &Times, window: Nanos, kind: u8) -> (u64, u64) {
    let (mut near, mut met) = (0, 0);
    let mut next = 0;
    for (i, &at) in own.at.iter().enumerate() {
        while next < other.at.len() && other.at[next] < at {
            next += 1;
        }
        let before = next
            .checked_sub(1)
            .filter(|&b| at - other.at[b] <= window.0);
        let after = Some(next).filter(|&a| a < other.at.len() && other.at[a] - at <= window.0);
        if before.is_some() || after.is_some() {
            near += 1;
        }
        if let (Some(before), Some(after)) = (before, after) {
            met += 1;
            own.flags[i] |= kind;
            if other.cpu[before] != own.cpu[i] || other.cpu[after] != own.cpu[i] {
                own.flags[i] |= OTHER_CPU;
            }
        }
    }
    (near, met)
}
