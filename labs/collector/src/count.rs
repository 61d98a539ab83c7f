//! The ways to count one. Each is a function of its own, so that its machine code can be found and looked at
//! (tests/it/code.rs does): no compiler may turn `n` increments into one addition of `n`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counters::Stats;

/// By locked additions, which a counter needs that others may change.
#[inline(never)]
pub(crate) fn count_rmw(counter: &AtomicU64, n: u64) {
    for _ in 0..n {
        counter.fetch_add(1, Relaxed);
    }
}

/// By loads, additions and stores. Atomic, because compilers keep each of those; without a lock, because the processor does
/// not have to.
#[inline(never)]
pub(crate) fn count_plain(counter: &AtomicU64, n: u64) {
    for _ in 0..n {
        counter.store(counter.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// The same, and where the next load goes depends on what the last one gave, as in a table that is walked by what is in it.
/// No count has its highest bit set, so it is always `counters[at]`; neither the compiler nor the processor knows.
#[inline(never)]
pub(crate) fn count_dependent(counters: &[AtomicU64], at: usize, n: u64) {
    let mut next = at;
    for _ in 0..n {
        let Some(counter) = counters.get(next) else {
            return;
        };
        let value = counter.load(Relaxed);
        counter.store(value.wrapping_add(1), Relaxed);
        next = at.wrapping_add((value >> 63) as usize);
    }
}

/// As hitm-counters does: a load, an addition and a store to the thread's own block.
#[inline(never)]
pub(crate) fn count_own(own: &Stats, n: u64) {
    for _ in 0..n {
        own.counted.inc();
    }
}
