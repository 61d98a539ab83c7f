//! What workers count, each on a line of its own, and reading it while they work.

use std::sync::Arc;

use crate::line::Line;
use crate::sync::{AtomicU64, Ordering};

/// What one worker counts; only it writes.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) executed: AtomicU64,
    pub(crate) stolen: AtomicU64,
    pub(crate) parked: AtomicU64,
    pub(crate) handed: AtomicU64,
}

/// Adds to a counter that only the calling thread writes.
#[inline(always)]
pub(crate) fn bump(counter: &AtomicU64, by: u64, order: Ordering) {
    counter.store(counter.load(Ordering::Relaxed) + by, order);
}

/// The counts of all workers.
#[derive(Clone, Debug)]
pub(crate) struct AllCounts(Arc<[Line<Counts>]>);

impl AllCounts {
    pub(crate) fn new(workers: usize) -> Self {
        let counts = |_| {
            Line::new(Counts {
                executed: AtomicU64::new(0),
                stolen: AtomicU64::new(0),
                parked: AtomicU64::new(0),
                handed: AtomicU64::new(0),
            })
        };
        Self((0..workers).map(counts).collect())
    }

    /// Begins anew. Nobody counts meanwhile.
    pub(crate) fn reset(&self) {
        for counts in &*self.0 {
            for count in [
                &counts.executed,
                &counts.stolen,
                &counts.parked,
                &counts.handed,
            ] {
                count.store(0, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    pub(crate) fn of(&self, worker: usize) -> &Counts {
        &self.0[worker]
    }

    /// Bodies that have ended.
    #[inline]
    pub(crate) fn executed(&self) -> u64 {
        let ended = |counts: &Line<Counts>| counts.executed.load(Ordering::Acquire);
        self.0.iter().map(ended).sum()
    }

    fn sum(&self, count: impl Fn(&Counts) -> &AtomicU64) -> u64 {
        let read = |counts: &Line<Counts>| count(counts).load(Ordering::Relaxed);
        self.0.iter().map(read).sum()
    }

    pub(crate) fn stolen(&self) -> u64 {
        self.sum(|counts| &counts.stolen)
    }

    pub(crate) fn handed(&self) -> u64 {
        self.sum(|counts| &counts.handed)
    }

    pub(crate) fn parked(&self) -> u64 {
        self.sum(|counts| &counts.parked)
    }
}

/// Looks at what a runtime's replay does, from any thread: [`Runtime::watch`](crate::Runtime::watch).
#[derive(Clone, Debug)]
pub struct Watch {
    counts: AllCounts,
}

/// What the present replay has done so far, or the last one did; see [`Replayed`](crate::Replayed).
///
/// While a replay runs, the figures are those of slightly different moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Activity {
    /// Transactions that have ended, well or not.
    pub executed: u64,
    /// Transactions that the dispatcher ran itself.
    pub helped: u64,
    /// Transactions that a worker took from another's share.
    pub stolen: u64,
    /// Transactions that ran on the worker that had freed them, directly after.
    pub handed: u64,
    /// Times a worker fell asleep for want of work.
    pub parked: u64,
}

impl Watch {
    /// For counts whose last are the dispatcher's.
    pub(crate) fn new(counts: AllCounts) -> Self {
        Self { counts }
    }

    /// Reads the counts of all workers.
    #[must_use]
    pub fn now(&self) -> Activity {
        let dispatcher = self.counts.0.last();
        Activity {
            helped: dispatcher.map_or(0, |counts| counts.executed.load(Ordering::Relaxed)),
            executed: self.counts.executed(),
            stolen: self.counts.stolen(),
            handed: self.counts.handed(),
            parked: self.counts.parked(),
        }
    }
}
