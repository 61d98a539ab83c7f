//! Who met whom on a line.
//!
//! A *slot* is a thread's reads, or its writes, of one byte range of the line. Two slots of different threads of which
//! at least one writes *oppose* each other. A sample of slot p is *near* slot q if q has a sample within the window
//! before or behind it, and it *met* q if, besides, q's thread was at the line within the window on both sides:
//!
//! ```text
//!   p:  ────────●────────        met q: its thread was at the line before and again after
//!   q:  ─────●─────●─────
//!
//!   p:  ──●──●──●────────        near q at the border, never met: a hand-over, a phase,
//!   q:  ────────────●──●──       or memory that was freed and given to another thread
//! ```
//!
//! A line that is visited seldom has a longer window; there the other's thread must also have been running, anywhere,
//! within three periods on both sides, else the two may have taken turns.
//!
//! Being there on both sides is what tells sharing from handing over. Time is cut into windows to count the *occasions*
//! on which a pair met, so that what happens at one border between two phases counts once. All of it depends on how
//! much of their time both are at the line, not on the sampling rate, since the window is a number of periods.

use std::collections::BTreeMap;

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
    /// Of these, samples that met an opponent.
    pub met: u64,
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
    /// The time in which they can have met at most, in samples: the lesser of p's samples and q's samples that are
    /// near the other or between samples of its thread.
    pub weight: u64,
    /// Samples of either that met the other.
    pub met: u64,
    /// Windows of time in which they met.
    pub occasions: u64,
}

/// All slots of a line and which of them met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Meetings {
    /// The window that was used: the one given, or a longer one where the line is visited seldom.
    pub window: Nanos,
    /// The slots, in order of address, then thread.
    pub slots: Vec<Slot>,
    /// The opposing pairs that were near each other at all.
    pub pairs: Vec<Meeting>,
    /// The samples of each slot in order of time.
    times: Vec<Times>,
}

/// Samples that met others, each counted once however many of its accesses did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Met {
    /// All of them.
    pub samples: u64,
    /// Those that met an opponent at disjoint bytes.
    pub disjoint: u64,
    /// Those that met an opponent at overlapping bytes.
    pub overlapping: u64,
    /// Those whose opponent was on another processor.
    pub on_other_cpu: u64,
    /// When the first and the last of them were taken.
    pub between: Option<(Nanos, Nanos)>,
}

impl Meetings {
    /// What the samples of some slots met.
    #[must_use]
    pub fn met(&self, slots: &[usize]) -> Met {
        let mut flags: BTreeMap<(u64, ThreadId), u8> = BTreeMap::new();
        for &slot in slots {
            let thread = self.slots[slot].thread;
            for (&at, &mark) in self.times[slot].at.iter().zip(&self.times[slot].flags) {
                *flags.entry((at, thread)).or_default() |= mark;
            }
        }
        let with = |mask: u8| flags.values().filter(|&&flags| flags & mask != 0).count() as u64;
        let mut met = flags
            .iter()
            .filter(|(_, flags)| **flags != 0)
            .map(|((at, _), _)| Nanos(*at));
        let first = met.next();
        Met {
            samples: with(DISJOINT | OVERLAPPING),
            disjoint: with(DISJOINT),
            overlapping: with(OVERLAPPING),
            on_other_cpu: with(OTHER_CPU),
            between: first.map(|first| (first, met.next_back().unwrap_or(first))),
        }
    }
}

/// The samples of one slot in order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Times {
    at: Vec<u64>,
    cpu: Vec<u32>,
    flags: Vec<u8>,
}

const DISJOINT: u8 = 1;
const OVERLAPPING: u8 = 2;
const OTHER_CPU: u8 = 4;

/// When each thread was seen running, wherever it was, in order of time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Running(FxHashMap<ThreadId, Vec<u64>>);

impl Running {
    /// Notes that a thread ran.
    pub fn note(&mut self, thread: ThreadId, at: Nanos) {
        self.0.entry(thread).or_default().push(at.0);
    }

    /// Puts what was noted in order.
    pub fn sort(&mut self) {
        self.0.values_mut().for_each(|at| at.sort_unstable());
    }

    /// Drops those of `sides` at whose time the thread was not running within the window before and behind; a thread
    /// of which nothing was noted may have run at any time.
    fn keep(&self, thread: ThreadId, own: &[u64], window: Nanos, sides: &mut [bool]) {
        let Some(ran) = self.0.get(&thread) else {
            return;
        };
        for (&at, side) in own.iter().zip(sides).filter(|(_, side)| **side) {
            let mut next = ran.partition_point(|&ran| ran < at);
            let (before, after) = neighbours(ran, at, &mut next, window);
            *side = before.is_some() && after.is_some();
        }
    }
}

/// A thread that runs is sampled every period, and the least window is ten of them: three suffice to see it run, and
/// turns of a few periods are told apart.
const fn running_window(least: Nanos) -> Nanos {
    Nanos(least.0 / 10 * 3)
}

/// At most so many times the given window, and at most so long, is a line's own window.
const LONGEST: (u64, Nanos) = (5, Nanos::from_millis(60));

/// The window for a line: three times the mean time between samples of the second most frequent thread there, so that a
/// thread that keeps coming back is found to be there; not shorter than the window given, and not so long that phases
/// and hand-overs would look like meetings.
fn window_for(touches: &[Touch], least: Nanos) -> Nanos {
    let (Some(first), Some(last)) = (touches.first(), touches.last()) else {
        return least;
    };
    let mut counts: Vec<u64> = presence(touches)
        .values()
        .map(|at| at.len() as u64)
        .collect();
    counts.sort_unstable();
    let second = counts.iter().rev().nth(1).copied().unwrap_or(0).max(1);
    let wanted = 3 * (last.at.since(first.at).0 / second);
    let longest = least
        .0
        .saturating_mul(LONGEST.0)
        .min(LONGEST.1.0)
        .max(least.0);
    Nanos(wanted.clamp(least.0, longest))
}

/// Finds out who met whom among the touches of one line, given in order of time.
///
/// `least_window` is how far apart two samples may be at least and count as near; it also is the unit of occasions.
#[must_use]
pub fn meetings(touches: &[Touch], running: &Running, least_window: Nanos) -> Meetings {
    let window = window_for(touches, least_window);
    let (mut slots, mut times) = slots_of(touches);
    let presence = presence(touches);
    let surrounded: Vec<BTreeMap<ThreadId, Vec<bool>>> = slots
        .iter()
        .zip(&times)
        .map(|(slot, own)| {
            let others = presence
                .iter()
                .filter(|(thread, _)| **thread != slot.thread);
            others
                .map(|(thread, at)| {
                    let mut sides = on_both_sides(&own.at, at, window);
                    // In the time between two visits that far apart the other may have slept.
                    if window > least_window {
                        running.keep(*thread, &own.at, running_window(least_window), &mut sides);
                    }
                    (*thread, sides)
                })
                .collect()
        })
        .collect();
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
            let mut occasions = Vec::new();
            let mut against = |own: &mut Times, other: &Times, surrounded: &[bool]| {
                against(
                    own,
                    other,
                    surrounded,
                    (window, least_window),
                    kind,
                    &mut occasions,
                )
            };
            let of_p = against(tp, tq, &surrounded[p][&slots[q].thread]);
            let of_q = against(tq, tp, &surrounded[q][&slots[p].thread]);
            if of_p.near.min(of_q.near) > 0 {
                occasions.sort_unstable();
                occasions.dedup();
                pairs.push(Meeting {
                    p,
                    q,
                    weight: of_p.weight.min(of_q.weight),
                    met: of_p.met + of_q.met,
                    occasions: occasions.len() as u64,
                });
            }
        }
    }
    for (slot, times) in slots.iter_mut().zip(&times) {
        slot.met = times.flags.iter().filter(|&&flags| flags != 0).count() as u64;
    }
    Meetings {
        window,
        slots,
        pairs,
        times,
    }
}

fn slots_of(touches: &[Touch]) -> (Vec<Slot>, Vec<Times>) {
    let mut index = FxHashMap::default();
    let mut slots: Vec<(Slot, Times)> = Vec::new();
    for touch in touches {
        let writes = touch.kind.writes();
        let number = *index
            .entry((touch.thread, touch.range, writes))
            .or_insert_with(|| {
                slots.push((Slot::new(touch), Times::default()));
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

impl Slot {
    fn new(touch: &Touch) -> Self {
        Self {
            thread: touch.thread,
            range: touch.range,
            kinds: AccessKinds::NONE,
            samples: 0,
            met: 0,
        }
    }
}

/// When each thread was at the line, whatever it did there.
fn presence(touches: &[Touch]) -> BTreeMap<ThreadId, Vec<u64>> {
    let mut presence: BTreeMap<ThreadId, Vec<u64>> = BTreeMap::new();
    for touch in touches {
        let at = presence.entry(touch.thread).or_default();
        if at.last() != Some(&touch.at.0) {
            at.push(touch.at.0);
        }
    }
    presence
}

/// For each of `own`, whether `other` is within the window before it and within the window from it on.
fn on_both_sides(own: &[u64], other: &[u64], window: Nanos) -> Vec<bool> {
    let mut next = 0;
    own.iter()
        .map(|&at| {
            let (before, after) = neighbours(other, at, &mut next, window);
            before.is_some() && after.is_some()
        })
        .collect()
}

/// The last of `other` before `at` and the first from `at` on, if they are within the window. `next` is kept between
/// calls with rising `at`.
fn neighbours(
    other: &[u64],
    at: u64,
    next: &mut usize,
    window: Nanos,
) -> (Option<usize>, Option<usize>) {
    while *next < other.len() && other[*next] < at {
        *next += 1;
    }
    let before = next
        .checked_sub(1)
        .filter(|&before| at - other[before] <= window.0);
    let after = Some(*next).filter(|&after| after < other.len() && other[after] - at <= window.0);
    (before, after)
}

/// What samples of `own` have to do with `other`. Those that met it are marked, and their windows noted.
fn against(
    own: &mut Times,
    other: &Times,
    surrounded: &[bool],
    (window, occasion): (Nanos, Nanos),
    kind: u8,
    occasions: &mut Vec<u64>,
) -> Side {
    let Side {
        mut near,
        mut weight,
        mut met,
    } = Side::default();
    let mut next = 0;
    for (i, &at) in own.at.iter().enumerate() {
        let (before, after) = neighbours(&other.at, at, &mut next, window);
        let is_near = before.is_some() || after.is_some();
        weight += u64::from(is_near || surrounded[i]);
        near += u64::from(is_near);
        if is_near && surrounded[i] {
            met += 1;
            occasions.push(at / occasion.0.max(1));
            own.flags[i] |= kind;
            if [before, after]
                .into_iter()
                .flatten()
                .any(|it| other.cpu[it] != own.cpu[i])
            {
                own.flags[i] |= OTHER_CPU;
            }
        }
    }
    Side { near, weight, met }
}

/// How many samples of one slot are near another, can have met it, and met it.
#[derive(Default)]
struct Side {
    near: u64,
    weight: u64,
    met: u64,
}
