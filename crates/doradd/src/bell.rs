//! Waiting: spin, then give way, then sleep until someone rings.
//!
//! The system this crate follows spins forever, and falls to some hundred transactions a second when two of its threads
//! share a core. Whoever waits here gives its core away after microseconds. A ring that nobody waits for costs one
//! load of a line that only sleepers write, see [`crate::barrier`].
//!
//! # Why no ring is lost
//! The sleeper counts itself, then looks at the condition; the ringer makes the condition true, then looks at the count.
//! Between the two steps of each stands a barrier of a pair, so at least one of them sees the other. The
//! sleeper looks under the mutex that the ringer takes before it notifies, so the notification cannot fall between
//! look and sleep.

use std::time::{Duration, Instant};

use crate::barrier::Barrier;
use crate::line::Line;
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering, SPINS, YIELDS, lock, spin_loop, yield_now};

/// Spins between two looks, at most: two hundred nanoseconds or less.
const LONGEST_PAUSE: u32 = 8;

/// How much longer to give way before falling asleep where each thread has a processor: a hundred microseconds in all.
///
/// That outlasts what an interrupt takes from whom we wait for, in a virtual machine too. Falling asleep for it costs more
/// than waiting: the system needs as long again to wake us up. Longer spinning would not do: hosts take the processor from
/// a guest that only spins.
const PATIENT: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 8 };
/// Giving way for longer than this means that somebody else had the processor, who may want it again.
const GIVEN_WAY: Duration = Duration::from_micros(20);

/// How long to give way before falling asleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    yields: u32,
}

impl Patience {
    /// Where others may wait for our processor.
    pub(crate) const SHORT: Self = Self { yields: YIELDS };

    /// For a runtime of so many threads: long if each can have a processor.
    pub(crate) fn of(threads: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        if threads <= processors {
            Self {
                yields: PATIENT * YIELDS,
            }
        } else {
            Self::SHORT
        }
    }
}

/// A place to wait for a condition that other threads make true.
#[derive(Debug)]
pub(crate) struct Bell {
    patience: Patience,
    sleepers: Line<Sleepers>,
    mutex: Mutex<()>,
    condvar: Condvar,
}

#[derive(Debug, Default)]
struct Sleepers {
    n: AtomicU32,
    barrier: Barrier,
}

impl Bell {
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            patience,
            sleepers: Line::default(),
            mutex: Mutex::new(()),
            condvar: Condvar::new(),
        }
    }

    /// Returns once `ready` is true, and whether it slept for that.
    pub(crate) fn wait(&self, mut ready: impl FnMut() -> bool) -> bool {
        let mut pause = 1;
        let mut spins = 0;
        while spins < SPINS {
            if ready() {
                return false;
            }
            // Each look takes a line from who writes it, so looks become rarer.
            for _ in 0..pause {
                spin_loop();
            }
            spins += pause;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
        for i in 0..self.patience.yields {
            if ready() {
                return false;
            }
            if i < YIELDS {
                yield_now();
            } else if somebody_else_ran() {
                break;
            }
        }
        self.sleepers.n.fetch_add(1, Ordering::Relaxed);
        self.sleepers.barrier.heavy();
        let mut guard = lock(&self.mutex);
        let mut slept = false;
        while !ready() {
            slept = true;
            guard = self
                .condvar
                .wait(guard)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
        }
        drop(guard);
        self.sleepers.n.fetch_sub(1, Ordering::Relaxed);
        slept
    }

    /// Wakes one sleeper, if there is one. Call it after the condition was made true.
    #[inline]
    pub(crate) fn ring(&self) {
        if self.has_sleepers() {
            self.wake(false);
        }
    }

    /// Wakes all sleepers. Call it after the condition was made true.
    #[inline]
    pub(crate) fn ring_all(&self) {
        if self.has_sleepers() {
            self.wake(true);
        }
    }

    #[inline]
    fn has_sleepers(&self) -> bool {
        self.sleepers.barrier.light();
        self.sleepers.n.load(Ordering::Relaxed) != 0
    }

    #[cold]
    fn wake(&self, all: bool) {
        drop(lock(&self.mutex));
        if all {
            self.condvar.notify_all();
        } else {
            self.condvar.notify_one();
        }
    }

    /// Whether someone may be asleep here; may miss one who is just falling asleep.
    #[inline]
    pub(crate) fn maybe_sleepers(&self) -> bool {
        self.sleepers.n.load(Ordering::Relaxed) != 0
    }
}

/// Gives way; whether it took so long that somebody else must have had the processor.
fn somebody_else_ran() -> bool {
    let began = Instant::now();
    yield_now();
    began.elapsed() > GIVEN_WAY
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::atomic::Ordering::Relaxed;

    use loom::sync::Arc;
    use loom::sync::atomic::AtomicBool;

    use super::{Bell, Patience};

    #[test]
    fn no_ring_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Bell::new(Patience::SHORT), AtomicBool::new(false)));
            let waiter = {
                let shared = Arc::clone(&shared);
                loom::thread::spawn(move || shared.0.wait(|| shared.1.load(Relaxed)))
            };
            shared.1.store(true, Relaxed);
            shared.0.ring();
            waiter.join().unwrap();
        });
    }
}
