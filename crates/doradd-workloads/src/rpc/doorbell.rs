//! Where the dispatcher sleeps while there is no request.
//!
//! # Why no ring is lost
//! The sleeper says that it sleeps, then looks whether there is something; who rings has made something be there, then
//! looks whether somebody sleeps. Between the two steps of each is a sequentially consistent fence, so at least one sees the
//! other. Who sees a sleeper finds its thread: it was put there, under the same mutex, before it said so.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

use hitm_counters::Isolated;

/// For one sleeper and any number of others who ring.
#[derive(Debug, Default)]
pub(crate) struct Doorbell {
    sleeping: Isolated<AtomicBool>,
    sleeper: Mutex<Option<Thread>>,
}

impl Doorbell {
    /// Sleeps until `ready` is true.
    pub(crate) fn wait(&self, ready: impl Fn() -> bool) {
        *self.sleeper() = Some(thread::current());
        self.sleeping.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        while !ready() {
            thread::park();
        }
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Wakes the sleeper, if there is one. Call it after the condition was made true.
    #[inline]
    pub(crate) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        if let Some(sleeper) = &*self.sleeper() {
            sleeper.unpark();
        }
    }

    fn sleeper(&self) -> MutexGuard<'_, Option<Thread>> {
        self.sleeper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn no_ring_is_lost() {
        const ROUNDS: u32 = if cfg!(miri) { 20 } else { 20_000 };
        let bells = [Doorbell::default(), Doorbell::default()];
        let ball = AtomicU32::new(0);
        thread::scope(|scope| {
            for me in [0, 1] {
                let (bells, ball) = (&bells, &ball);
                scope.spawn(move || {
                    for round in (me..ROUNDS).step_by(2) {
                        bells[me as usize].wait(|| ball.load(Ordering::Acquire) == round);
                        ball.store(round + 1, Ordering::Release);
                        bells[1 - me as usize].ring();
                    }
                });
            }
        });
        assert_eq!(ball.load(Ordering::Relaxed), ROUNDS);
    }
}
