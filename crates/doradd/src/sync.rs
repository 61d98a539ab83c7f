//! The one door to atomics, locks and threads, so that loom and shuttle can stand in for them.
//!
//! `--cfg loom` explores every order of the small protocols, `--cfg shuttle` random schedules of the whole runtime. The
//! rest of the crate names no type of `std::sync` or `std::thread` itself.

#[cfg(loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use loom::sync::{Condvar, Mutex};
    pub(crate) use loom::thread::yield_now;
    // The tests under loom use no engine, whose thread-locals these are.
    pub(crate) use std::thread_local;

    /// Spins before anything gives way; few, so that loom's state space stays small.
    pub(crate) const SPINS: u32 = 1;
    /// Gives way to other threads before parking.
    pub(crate) const YIELDS: u32 = 0;
}

#[cfg(shuttle)]
mod imp {
    pub(crate) use shuttle::hint::spin_loop;
    pub(crate) use shuttle::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use shuttle::sync::{Condvar, Mutex};
    pub(crate) use shuttle::thread::yield_now;
    pub(crate) use shuttle::thread_local;

    pub(crate) use super::cell::UnsafeCell;

    pub(crate) const SPINS: u32 = 1;
    pub(crate) const YIELDS: u32 = 1;
}

#[cfg(not(any(loom, shuttle)))]
mod imp {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
    };
    pub(crate) use std::sync::{Condvar, Mutex};
    pub(crate) use std::thread::yield_now;
    pub(crate) use std::thread_local;

    pub(crate) use super::cell::UnsafeCell;

    /// Spins before giving way: some microseconds; few where each step takes that long.
    pub(crate) const SPINS: u32 = if cfg!(miri) { 4 } else { 512 };
    /// Gives way to other threads before parking.
    pub(crate) const YIELDS: u32 = if cfg!(miri) { 4 } else { 32 };
}

pub(crate) use imp::*;

/// Threads of the runtime: real ones, or shuttle's. Loom tests the parts without them.
pub(crate) mod threads {
    use std::io;

    #[cfg(shuttle)]
    use shuttle::thread;
    #[cfg(not(shuttle))]
    use std::thread;

    pub(crate) use thread::{Builder, JoinHandle, Scope, scope};

    /// Starts a thread that ends within a scope.
    pub(crate) fn spawn_in<'scope>(
        scope: &'scope Scope<'scope, '_>,
        name: String,
        run: impl FnOnce() + Send + 'scope,
    ) -> io::Result<()> {
        #[cfg(not(shuttle))]
        Builder::new().name(name).spawn_scoped(scope, run)?;
        #[cfg(shuttle)]
        {
            let _ = name;
            scope.spawn(run);
        }
        Ok(())
    }
}

#[cfg(not(loom))]
mod cell {
    /// `std`'s cell with loom's interface: the pointer does not leave the closure unnoticed.
    #[derive(Debug, Default)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }
    }
}

/// Locks a mutex of this crate.
///
/// No body of a user runs under one, and what they guard is whole between any two statements: poison says nothing here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(loom)]
pub(crate) use loom::sync::MutexGuard;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::MutexGuard;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::MutexGuard;
