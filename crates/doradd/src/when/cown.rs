//! Objects that bodies acquire, and the queue that each object has.
//!
//! An object's header is one word of state beside the value: a lock bit, what holds the object now, and the last slot of
//! its queue (the *tail*). The lock bit is held for a few instructions and never across a body. Several objects are
//! acquired at once by locking their headers in the order of their addresses, appending a slot to each queue, and
//! unlocking them: two requests stand in the same order in every queue they share, so no circle of waiting can form.
//!
//! | state | means |
//! | --- | --- |
//! | 0 | free |
//! | tail, not READ | a writer holds it; the tail is the writer's own slot if nobody waits |
//! | READ, no tail | `readers` hold it, nobody waits |
//! | READ, tail | `readers` hold it, `first` is a waiting writer, the tail is the last that waits |
//!
//! ORPHAN is set beside these once the last handle is gone: who makes the object free then drops it. So a queue needs no
//! reference count of its own, and submitting does not touch one.

use std::fmt;
use std::ptr::NonNull;

use crate::sync::{
    AtomicBool, AtomicU32, AtomicUsize, Ordering, SPINS, UnsafeCell, spin_loop, yield_now,
};
use crate::when::behaviour::MAX_OBJECTS;
use crate::when::slab::Slab;

const LOCK: u32 = 1;
const READ: u32 = 2;
const ORPHAN: u32 = 4;
const SHIFT: u32 = 3;

/// Records that slot numbers have room for.
pub(crate) const MAX_RECORDS: usize = (1 << (32 - SHIFT)) / MAX_OBJECTS - 1;

/// A slot of a record as one number, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlotId(u32);

impl SlotId {
    pub(crate) fn new(record: u32, slot: usize) -> Self {
        Self(record * MAX_OBJECTS as u32 + slot as u32 + 1)
    }

    fn record(self) -> u32 {
        (self.0 - 1) / MAX_OBJECTS as u32
    }

    fn slot(self) -> usize {
        (self.0 - 1) as usize % MAX_OBJECTS
    }
}

/// What every object has, whatever its value's type.
#[derive(Debug)]
pub(crate) struct Header {
    state: AtomicU32,
    /// Readers that hold the object. Under the lock.
    readers: UnsafeCell<u32>,
    /// The first that waits while readers hold the object. Under the lock.
    first: UnsafeCell<u32>,
    /// A body panicked that held this object.
    poisoned: AtomicBool,
    handles: AtomicUsize,
    /// The runtime the object belongs to.
    pub(crate) runtime: u64,
    /// Drops the object.
    free: unsafe fn(NonNull<Header>),
}

/// What became of an object that was released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Released {
    /// It is held, or free with handles to it.
    Lives,
    /// Nobody can reach it any more: the caller must free it.
    Orphaned,
}

#[expect(unsafe_code, reason = "cells and slots under the object's lock")]
impl Header {
    pub(crate) fn new(runtime: u64, free: unsafe fn(NonNull<Self>)) -> Self {
        Self {
            state: AtomicU32::new(0),
            readers: UnsafeCell::new(0),
            first: UnsafeCell::new(0),
            poisoned: AtomicBool::new(false),
            handles: AtomicUsize::new(1),
            runtime,
            free,
        }
    }

    /// Takes a free object for a writer without locking it; whether that worked.
    #[inline]
    pub(crate) fn try_take(&self, slot: SlotId) -> bool {
        // Acquire: what the last holder did to the value. Release: what the slot's record says.
        self.state
            .compare_exchange(0, slot.0 << SHIFT, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Locks the queue and gives the state without the lock bit.
    #[inline]
    pub(crate) fn lock(&self) -> u32 {
        let mut looks = 0;
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state & LOCK == 0
                && self
                    .state
                    .compare_exchange_weak(state, state | LOCK, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                return state;
            }
            looks += 1;
            if looks < SPINS {
                spin_loop();
            } else {
                // The holder may have lost its core: let it go on.
                yield_now();
            }
        }
    }

    #[inline]
    pub(crate) fn unlock(&self, state: u32) {
        self.state.store(state, Ordering::Release);
    }

    /// Appends a slot to the locked queue: the new state, and whether the slot holds the object now.
    pub(crate) fn append(&self, state: u32, slab: &Slab, slot: SlotId, write: bool) -> (u32, bool) {
        let tail = state >> SHIFT;
        let orphan = state & ORPHAN;
        let reading = state & READ != 0;
        if tail == 0 && !write {
            // SAFETY: the lock is held.
            self.readers.with_mut(|readers| unsafe { *readers += 1 });
            return (READ | orphan, true);
        }
        let last = slot.0 << SHIFT | orphan;
        if tail == 0 && !reading {
            return (last, true);
        }
        if tail == 0 {
            // SAFETY: the lock is held.
            self.first.with_mut(|first| unsafe { *first = slot.0 });
        } else {
            let tail = SlotId(tail);
            // SAFETY: the lock is held, and the state says that this slot is the last.
            unsafe { slab.get(tail.record()).set_next(tail.slot(), slot.0) };
        }
        (last | (state & READ), false)
    }

    /// Ends what a slot held and grants the object to who is next.
    #[inline]
    pub(crate) fn release(
        &self,
        slab: &Slab,
        slot: SlotId,
        write: bool,
        mut ready: impl FnMut(u32),
    ) -> Released {
        if write
            && self
                .state
                .compare_exchange(slot.0 << SHIFT, 0, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        {
            return Released::Lives;
        }
        let state = self.lock();
        let state = if write {
            self.end_write(state, slab, slot, &mut ready)
        } else {
            self.end_read(state, slab, &mut ready)
        };
        if state == ORPHAN {
            // Nobody waits, nobody holds, nobody can come: the lock stays as it is.
            return Released::Orphaned;
        }
        self.unlock(state);
        Released::Lives
    }

    fn end_write(&self, state: u32, slab: &Slab, slot: SlotId, ready: &mut impl FnMut(u32)) -> u32 {
        let orphan = state & ORPHAN;
        let tail = state >> SHIFT;
        if tail == slot.0 {
            return orphan;
        }
        // SAFETY: the lock is held, and the slot is not the last.
        let mut next = SlotId(unsafe { slab.get(slot.record()).next(slot.slot()) });
        if slab.get(next.record()).held(next.slot()).write {
            grant(slab, next, ready);
            return tail << SHIFT | orphan;
        }
        let mut readers = 0;
        let state = loop {
            // Once granted, the record may end and be used again: look at it before.
            let is_last = next.0 == tail;
            let after = if is_last {
                0
            } else {
                // SAFETY: the lock is held, and the slot is not the last.
                unsafe { slab.get(next.record()).next(next.slot()) }
            };
            readers += 1;
            grant(slab, next, ready);
            if is_last {
                break READ | orphan;
            }
            next = SlotId(after);
            if slab.get(next.record()).held(next.slot()).write {
                // SAFETY: the lock is held.
                self.first.with_mut(|first| unsafe { *first = next.0 });
                break tail << SHIFT | READ | orphan;
            }
        };
        // SAFETY: the lock is held.
        self.readers.with_mut(|count| unsafe { *count = readers });
        state
    }

    fn end_read(&self, state: u32, slab: &Slab, ready: &mut impl FnMut(u32)) -> u32 {
        let left = self.readers.with_mut(|readers| {
            // SAFETY: the lock is held.
            let readers = unsafe { &mut *readers };
            *readers -= 1;
            *readers
        });
        if left > 0 {
            return state;
        }
        let tail = state >> SHIFT;
        if tail != 0 {
            // SAFETY: the lock is held.
            grant(
                slab,
                SlotId(self.first.with(|first| unsafe { *first })),
                ready,
            );
        }
        tail << SHIFT | (state & ORPHAN)
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        // Relaxed: it was set by a holder before us, whose release we acquired.
        self.poisoned.load(Ordering::Relaxed)
    }

    pub(crate) fn poison(&self, poisoned: bool) {
        self.poisoned.store(poisoned, Ordering::Relaxed);
    }

    /// One handle less; whether the object is the caller's to free.
    fn drop_handle(&self) -> Released {
        // Release and acquire as for any shared count: the last sees what all others did.
        if self.handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return Released::Lives;
        }
        let state = self.lock();
        if state == 0 {
            return Released::Orphaned;
        }
        self.unlock(state | ORPHAN);
        Released::Lives
    }
}

fn grant(slab: &Slab, slot: SlotId, ready: &mut impl FnMut(u32)) {
    if slab.get(slot.record()).granted() {
        ready(slot.record());
    }
}

/// Frees an object.
///
/// # Safety
/// A release or the drop of the last handle said [`Released::Orphaned`] about it, and this is called once.
#[expect(
    unsafe_code,
    reason = "objects are freed by whoever releases them last"
)]
pub(crate) unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the object is alive until freed here.
    let free = unsafe { header.as_ref() }.free;
    // SAFETY: as the caller promises.
    unsafe { free(header) };
}

/// The value with its header; the header is first, so that a pointer to it is one to the whole.
#[repr(C)]
pub(crate) struct Inner<T> {
    pub(crate) header: Header,
    pub(crate) value: UnsafeCell<T>,
}

/// A handle to an object that only bodies of [`Runtime::when`](crate::Runtime::when) can look into.
///
/// Cloning gives another handle to the same object. The object is dropped when no handle is left and no submitted body
/// needs it any more; that may be on a worker. It belongs to the runtime that made it with
/// [`Runtime::cown`](crate::Runtime::cown).
pub struct Cown<T> {
    inner: NonNull<Inner<T>>,
}

#[expect(
    unsafe_code,
    reason = "a shared owner of an object whose access the runtime orders"
)]
mod shared {
    use super::Cown;

    // SAFETY: a handle moves values between threads (Send); bodies that read share them (Sync, asked for where a body
    // reads). The handle itself gives no access.
    unsafe impl<T: Send> Send for Cown<T> {}
    // SAFETY: as above; `&Cown` allows cloning and submitting only.
    unsafe impl<T: Send> Sync for Cown<T> {}
}

#[expect(
    unsafe_code,
    reason = "a shared owner of an object whose access the runtime orders"
)]
impl<T> Cown<T> {
    pub(crate) fn new(value: T, runtime: u64) -> Self {
        unsafe fn free<T>(header: NonNull<Header>) {
            let inner: NonNull<Inner<T>> = header.cast();
            // SAFETY: the header is the first field of the box that `new` made, and this is its only end.
            drop(unsafe { Box::from_raw(inner.as_ptr()) });
        }
        let inner = Box::leak(Box::new(Inner {
            header: Header::new(runtime, free::<T>),
            value: UnsafeCell::new(value),
        }));
        Self {
            inner: NonNull::from(inner),
        }
    }

    pub(crate) fn inner(&self) -> NonNull<Inner<T>> {
        self.inner
    }

    pub(crate) fn header(&self) -> &Header {
        // SAFETY: the object lives as long as a handle does.
        unsafe { &(*self.inner.as_ptr()).header }
    }

    /// Whether a body that held this object for writing has panicked, as far as this thread knows.
    ///
    /// Under [`OnPanic::Poison`](crate::OnPanic::Poison), later bodies that need the object are dropped unrun.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.header().is_poisoned()
    }

    /// Lets bodies use a poisoned object again, from some point in its queue on.
    pub fn clear_poison(&self) {
        self.header().poison(false);
    }
}

impl<T> Clone for Cown<T> {
    fn clone(&self) -> Self {
        // Relaxed: the new handle comes from one that is alive.
        self.header().handles.fetch_add(1, Ordering::Relaxed);
        Self { inner: self.inner }
    }
}

impl<T> Drop for Cown<T> {
    fn drop(&mut self) {
        if self.header().drop_handle() == Released::Orphaned {
            #[expect(unsafe_code, reason = "the last handle of an unused object")]
            // SAFETY: nobody holds the object or can reach it.
            unsafe {
                free(self.inner.cast());
            }
        }
    }
}

impl<T> fmt::Debug for Cown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cown")
            .field("address", &self.inner)
            .field("poisoned", &self.is_poisoned())
            .finish()
    }
}
