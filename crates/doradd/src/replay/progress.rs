//! Two words that all threads of a replay meet at: the dispatcher's cursor, and what workers are told.
//!
//! Each is alone on its line. With the feature `story1-false-sharing` they share one, as in the story that this crate comes
//! from: the lab that hitm finds.

use crate::counts::bump;
#[cfg(not(feature = "story1-false-sharing"))]
use crate::line::{Line, assert_apart};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A word that the dispatcher writes for every transaction, and one that workers read for every transaction and, while
/// they have none, over and over.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Progress {
    /// Transactions that are joined to the graph.
    spawned: Apart<AtomicU64>,
    /// [`POISONED`] and [`OVER`].
    signals: Apart<AtomicU32>,
}

#[cfg(not(feature = "story1-false-sharing"))]
type Apart<T> = Line<T>;
#[cfg(feature = "story1-false-sharing")]
type Apart<T> = T;

#[cfg(not(feature = "story1-false-sharing"))]
assert_apart!(Progress: spawned, signals);

/// A row is poisoned.
const POISONED: u32 = 1;
/// No work will come any more.
const OVER: u32 = 2;

impl Progress {
    /// One more transaction is joined to the graph. Only the joining thread calls this.
    #[inline(always)]
    pub(crate) fn add_spawned(&self) {
        bump(&self.spawned, 1, Ordering::Relaxed);
    }

    /// Transactions that are joined to the graph.
    pub(crate) fn spawned(&self) -> u64 {
        self.spawned.load(Ordering::Relaxed)
    }

    #[cold]
    pub(crate) fn set_poisoned(&self) {
        self.signals.fetch_or(POISONED, Ordering::Relaxed);
    }

    /// Whether a row is poisoned at all.
    #[inline(always)]
    pub(crate) fn is_any_poisoned(&self) -> bool {
        // Relaxed: a body that poisoned one of our rows released it before we acquired it.
        self.signals.load(Ordering::Relaxed) & POISONED != 0
    }

    /// All work is done.
    pub(crate) fn end(&self) {
        self.signals.fetch_or(OVER, Ordering::Release);
    }

    /// Whether no work will come any more.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.signals.load(Ordering::Acquire) & OVER != 0
    }
}
