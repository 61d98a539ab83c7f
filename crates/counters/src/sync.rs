//! The seam between the crate and its atomics and locks: core's and std's, or loom's, which tries every interleaving.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Counts are shared by readers and writers, never a lock. This is for what happens seldom: a thread begins or ends,
/// someone reads. A panic inside leaves nothing half done, so there is no poison.
pub(crate) struct Lock<T> {
    inner: imp::Mutex<T>,
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> core::fmt::Debug for Lock<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Lock")
    }
}

#[cfg(any(feature = "std", loom))]
mod imp {
    #[cfg(loom)]
    pub(super) use loom::sync::{Mutex, MutexGuard};
    #[cfg(not(loom))]
    pub(super) use std::sync::{Mutex, MutexGuard};

    impl<T> super::Lock<T> {
        #[cfg(not(loom))]
        pub(crate) const fn new(value: T) -> Self {
            let inner = Mutex::new(value);
            Self { inner }
        }

        #[cfg(loom)]
        pub(crate) fn new(value: T) -> Self {
            let inner = Mutex::new(value);
            Self { inner }
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.inner
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }
}

/// Without an operating system to sleep in there is only spinning.
#[cfg(not(any(feature = "std", loom)))]
mod imp {
    #![expect(unsafe_code, reason = "a lock is what makes a cell shared")]

    use core::cell::UnsafeCell;
    use core::ops::{Deref, DerefMut};
    use core::sync::atomic::{AtomicBool, Ordering};

    pub(super) struct Mutex<T> {
        locked: AtomicBool,
        value: UnsafeCell<T>,
    }

    // SAFETY: the value is reached by one guard at a time, so sharing the lock only moves the value between threads.
    unsafe impl<T: Send> Sync for Mutex<T> {}

    pub(crate) struct Guard<'a, T> {
        mutex: &'a Mutex<T>,
    }

    impl<T> super::Lock<T> {
        pub(crate) const fn new(value: T) -> Self {
            let inner = Mutex {
                locked: AtomicBool::new(false),
                value: UnsafeCell::new(value),
            };
            Self { inner }
        }

        pub(crate) fn lock(&self) -> Guard<'_, T> {
            let locked = &self.inner.locked;
            while locked
                .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
            {
                // Reading leaves the line with its holder.
                while locked.load(Ordering::Relaxed) {
                    core::hint::spin_loop();
                }
            }
            Guard { mutex: &self.inner }
        }
    }

    impl<T> Deref for Guard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            // SAFETY: this guard is the only one while `locked` is set, and it was set by making this guard.
            unsafe { &*self.mutex.value.get() }
        }
    }

    impl<T> DerefMut for Guard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above, and the guard itself is borrowed exclusively.
            unsafe { &mut *self.mutex.value.get() }
        }
    }

    impl<T> Drop for Guard<'_, T> {
        fn drop(&mut self) {
            self.mutex.locked.store(false, Ordering::Release);
        }
    }
}
