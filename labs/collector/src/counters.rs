//! Where the counters are: the layouts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hitm_counters::{Counter, Counters, PerThread};

use crate::cli::{Layout, MOST_THREADS, Op};
use crate::count::{count_dependent, count_own, count_plain, count_rmw};

/// What a thread counts with hitm-counters.
#[derive(Counters)]
pub(crate) struct Stats {
    pub(crate) counted: Counter,
}

/// The array of the story, `uint64_t cnt[N]`. Its base is aligned, so that it is the same lines in every build.
#[repr(align(128))]
struct Packed {
    cnt: [AtomicU64; MOST_THREADS],
}

static PACKED: Packed = Packed {
    cnt: [const { AtomicU64::new(0) }; MOST_THREADS],
};

/// Counters of one run, all zero at first.
pub(crate) enum Places {
    /// The array of the story.
    Packed,
    /// One in `stride` words, the first one at the start of a line.
    Padded {
        words: Vec<AtomicU64>,
        first: usize,
        stride: usize,
    },
    PerThread(PerThread<Stats>),
}

impl Places {
    /// Counters for so many threads on lines of so many bytes.
    pub(crate) fn new(layout: Layout, threads: usize, line: usize) -> Self {
        match layout {
            Layout::Packed => {
                for counter in &PACKED.cnt {
                    counter.store(0, Relaxed);
                }
                Self::Packed
            }
            Layout::Padded => {
                let stride = (line / size_of::<AtomicU64>()).max(1);
                // One stride more than counters: what is left over is before the first and behind the last.
                let words: Vec<_> = (0..(threads + 1) * stride)
                    .map(|_| AtomicU64::new(0))
                    .collect();
                let word = words.as_ptr().addr() / size_of::<AtomicU64>();
                Self::Padded {
                    first: word.next_multiple_of(stride) - word,
                    words,
                    stride,
                }
            }
            Layout::PerThread => Self::PerThread(PerThread::with_capacity(threads)),
        }
    }

    /// Makes ready what the calling thread needs to count, then calls `start`; counts unless that says `None`.
    pub(crate) fn count<T>(
        &self,
        thread: usize,
        op: Op,
        n: u64,
        start: impl FnOnce() -> Option<T>,
    ) -> Option<T> {
        if let Self::PerThread(stats) = self {
            let own = stats.local();
            let started = start()?;
            count_own(&own, n);
            return Some(started);
        }
        let (words, at) = self.shared(thread);
        let started = start()?;
        match op {
            Op::Rmw => count_rmw(&words[at], n),
            Op::Plain => count_plain(&words[at], n),
            Op::Dependent => count_dependent(words, at, n),
        }
        Some(started)
    }

    /// The sum over all threads.
    pub(crate) fn sum(&self, threads: usize) -> u64 {
        if let Self::PerThread(stats) = self {
            return stats.snapshot().values().counted;
        }
        (0..threads)
            .map(|thread| {
                let (words, at) = self.shared(thread);
                words[at].load(Relaxed)
            })
            .sum()
    }

    /// The words and which of them is a thread's.
    fn shared(&self, thread: usize) -> (&[AtomicU64], usize) {
        match self {
            Self::Packed | Self::PerThread(_) => (&PACKED.cnt, thread),
            Self::Padded {
                words,
                first,
                stride,
            } => (words, first + thread * stride),
        }
    }
}

/// Where the packed counters of so many threads are.
pub(crate) fn packed_addresses(threads: usize) -> impl Iterator<Item = usize> {
    let counters = PACKED.cnt.iter().take(threads);
    counters.map(|counter| (&raw const *counter).addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padded_counters_begin_lines_and_packed_ones_share_them() {
        for line in [16, 64, 128, 4096] {
            let places = Places::new(Layout::Padded, 3, line);
            let address = |thread| {
                let (words, at) = places.shared(thread);
                (&raw const words[at]).addr()
            };
            assert_eq!([0, 1, 2].map(|thread| address(thread) % line), [0; 3]);
            assert_eq!(address(1) - address(0), line);
        }
        let packed: Vec<usize> = packed_addresses(3).collect();
        assert_eq!(packed[0] % 128, 0);
        assert_eq!(packed[2] - packed[0], 2 * size_of::<u64>());
    }

    /// Each increment is a store of its own: who looks meanwhile sees counts between none and all.
    #[test]
    fn counts_are_seen_while_they_are_made() {
        const N: u64 = 200_000_000;
        for op in [Op::Rmw, Op::Plain, Op::Dependent] {
            let places = Places::new(Layout::Padded, 1, 64);
            std::thread::scope(|scope| {
                let counting = scope.spawn(|| places.count(0, op, N, || Some(())));
                let mut between = false;
                while !counting.is_finished() && !between {
                    between = (1..N).contains(&places.sum(1));
                    std::thread::yield_now();
                }
                assert!(between, "{op:?}");
            });
            assert_eq!(places.sum(1), N);
        }
    }
}
