//! What a shared line costs on this machine, by what the threads do to it.
//!
//! Two pinned threads work on words of their own. Windows with the words on one line (or on neighbouring lines) and
//! windows with the words far apart alternate; the ratio of the CPU time per operation, pair of windows by pair of
//! windows, is the cost. Nothing else differs between the two: same code, same processors, same milliseconds.
//!
//! # Caveats
//! A loop that does nothing else is the worst case: a program with work between its accesses pays less.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hitm_model::LineSize;

use super::Cpu;
use super::stats::Ratio;
use super::window::{CannotTell, Until, Window, side_by_side};

/// What the threads do to their words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Stores, one after the other, that nothing waits for.
    PlainWrites,
    /// Atomic additions (`lock add`).
    LockedAdds,
    /// A load, arithmetic on it that later work needs, and a store.
    DependentUpdates,
    /// One thread stores, the other loads; the reader's cost.
    ReaderBesideWriter,
}

impl Operation {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::PlainWrites,
        Self::LockedAdds,
        Self::DependentUpdates,
        Self::ReaderBesideWriter,
    ];

    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::PlainWrites => "plain writes, back to back",
            Self::LockedAdds => "locked adds",
            Self::DependentUpdates => "updates that later work depends on",
            Self::ReaderBesideWriter => "a reader beside a writer",
        }
    }

    /// Whether the cost is that of side 1 only.
    const fn counts_side(self, side: usize) -> bool {
        match self {
            Self::ReaderBesideWriter => side == 1,
            _ => true,
        }
    }
}

/// Where the words of the two threads are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Placement {
    /// Disjoint words of one line.
    SameLine,
    /// On the two lines of an aligned pair.
    PairedLines,
    /// On lines of different pairs, far from each other.
    Apart,
}

impl Placement {
    /// The word of a side, counted from the start of an arena.
    const fn word(self, side: usize, words_per_line: usize) -> usize {
        match self {
            Self::SameLine => side,
            Self::PairedLines => side * words_per_line,
            Self::Apart => side * FAR_LINES * words_per_line,
        }
    }
}

/// How far apart is apart, in lines: beyond a pair and beyond what a stream prefetcher fetches ahead.
const FAR_LINES: usize = 64;

/// How often and how long to try.
#[derive(Clone, Copy, Debug)]
pub struct RatioBudget {
    /// Pairs of windows that suffice.
    pub pairs: usize,
    /// For all of them together, those left out included.
    pub time: Duration,
}

/// The ratio of the cost of `operation` with the words placed as given to the cost with the words apart.
///
/// # Errors
/// If the threads cannot be put on the processors, or never ran side by side.
pub fn cost_ratio(
    cpus: [Cpu; 2],
    line: LineSize,
    operation: Operation,
    placement: Placement,
    budget: RatioBudget,
) -> Result<Ratio, CannotTell> {
    let arena = Arena::new(line);
    let end = Instant::now() + budget.time;
    let (mut ratios, mut left_out) = (Vec::new(), 0);
    while ratios.len() < budget.pairs.max(1)
        && (ratios.len() + left_out == 0 || Instant::now() < end)
    {
        let cost = |placement| window_cost(&arena, cpus, operation, placement);
        // A B, B A, A B, …: whatever drifts over time favours neither.
        let (near, far) = if (ratios.len() + left_out).is_multiple_of(2) {
            let near = cost(placement)?;
            (near, cost(Placement::Apart)?)
        } else {
            let far = cost(Placement::Apart)?;
            (cost(placement)?, far)
        };
        match near.zip(far) {
            Some((near, far)) if far > 0.0 => ratios.push(near / far),
            _ => left_out += 1,
        }
    }
    let (good, windows) = (ratios.len(), ratios.len() + left_out);
    Ratio::of(ratios, left_out).ok_or(CannotTell::NeverCoRan { good, windows })
}

const WINDOW: Duration = Duration::from_millis(1);
/// Operations between two looks at the clock: enough that looking is not what is measured.
const BATCH: u64 = 1024;

/// CPU nanoseconds per operation in one window; `None` if the threads did not run side by side.
fn window_cost(
    arena: &Arena,
    cpus: [Cpu; 2],
    operation: Operation,
    placement: Placement,
) -> Result<Option<f64>, CannotTell> {
    let window = side_by_side(cpus, WINDOW, |side, until| {
        work(operation, side, arena.word(placement, side), until)
    })?;
    Ok(window.co_ran().then(|| cost_of(&window, operation)))
}

fn cost_of(window: &Window<u64>, operation: Operation) -> f64 {
    let (mut nanos, mut sides) = (0.0, 0.0);
    for (number, side) in window.sides.iter().enumerate() {
        if operation.counts_side(number) && side.result > 0 {
            nanos += side.cpu.as_nanos() as f64 / side.result as f64;
            sides += 1.0;
        }
    }
    nanos / f64::max(sides, 1.0)
}

/// Does the operation until the window is over; how often it did.
fn work(operation: Operation, side: usize, word: &AtomicU64, until: Until) -> u64 {
    match operation {
        Operation::PlainWrites => plain_writes(word, until),
        Operation::LockedAdds => locked_adds(word, until),
        Operation::DependentUpdates => dependent_updates(word, until),
        Operation::ReaderBesideWriter if side == 0 => plain_writes(word, until),
        Operation::ReaderBesideWriter => reads(word, until),
    }
}

#[inline(never)]
fn plain_writes(word: &AtomicU64, until: Until) -> u64 {
    let mut done = 0;
    while !until.over() {
        for i in 0..BATCH {
            word.store(done + i, Ordering::Relaxed);
        }
        done += BATCH;
    }
    done
}

#[inline(never)]
fn locked_adds(word: &AtomicU64, until: Until) -> u64 {
    let mut done = 0;
    while !until.over() {
        for _ in 0..BATCH {
            word.fetch_add(1, Ordering::Relaxed);
        }
        done += BATCH;
    }
    done
}

#[inline(never)]
fn dependent_updates(word: &AtomicU64, until: Until) -> u64 {
    let mut done = 0;
    while !until.over() {
        for _ in 0..BATCH {
            // The chain is long enough that the store has left the store buffer when the word is loaded again.
            let mut value = word.load(Ordering::Relaxed);
            for _ in 0..CHAIN {
                value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value >> 29));
            }
            word.store(value, Ordering::Relaxed);
        }
        done += BATCH;
    }
    done
}

const CHAIN: u32 = 8;

#[inline(never)]
fn reads(word: &AtomicU64, until: Until) -> u64 {
    let (mut done, mut sum) = (0, 0_u64);
    while !until.over() {
        for _ in 0..BATCH {
            sum = sum.wrapping_add(word.load(Ordering::Relaxed));
        }
        done += BATCH;
    }
    black_box(sum);
    done
}

/// Memory for the words, aligned so that its first line is the first of a pair.
struct Arena {
    pages: Box<[Page]>,
    words_per_line: usize,
}

const PAGE: usize = 8192;
const WORD: usize = size_of::<AtomicU64>();

/// The alignment is twice the largest line size that the model allows.
#[repr(C, align(8192))]
struct Page([AtomicU64; PAGE / WORD]);

const _: () = {
    assert!(align_of::<Page>() == PAGE && size_of::<Page>() == PAGE);
    assert!(LineSize::new(PAGE as u32 / 2).is_ok() && LineSize::new(PAGE as u32).is_err());
};

impl Arena {
    fn new(line: LineSize) -> Self {
        let line = line.bytes() as usize;
        let pages = (line * (FAR_LINES + 1)).div_ceil(PAGE);
        Self {
            pages: (0..pages)
                .map(|_| Page([const { AtomicU64::new(0) }; PAGE / WORD]))
                .collect(),
            words_per_line: line / WORD,
        }
    }

    fn word(&self, placement: Placement, side: usize) -> &AtomicU64 {
        let index = placement.word(side, self.words_per_line);
        let words = PAGE / WORD;
        &self.pages[index / words].0[index % words]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_where_the_placement_says() {
        for bytes in [16, 32, 64, 128, 256, 4096] {
            let arena = Arena::new(LineSize::new(bytes).unwrap());
            let lines = |placement| {
                [0, 1].map(|side| {
                    let word: *const AtomicU64 = arena.word(placement, side);
                    word as usize / bytes as usize
                })
            };
            let [a, b] = lines(Placement::SameLine);
            assert_eq!(a, b, "one line of {bytes}");
            let [a, b] = lines(Placement::PairedLines);
            assert_eq!((b - a, a % 2), (1, 0), "the lines of a pair of {bytes}");
            let [a, b] = lines(Placement::Apart);
            assert!(b - a >= FAR_LINES, "apart by lines of {bytes}");
            assert!(!std::ptr::eq(
                arena.word(Placement::SameLine, 0),
                arena.word(Placement::SameLine, 1)
            ));
        }
    }
}
