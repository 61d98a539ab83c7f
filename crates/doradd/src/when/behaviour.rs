//! The record of one submitted body: what it waits for, what it holds, and the closure itself.

use std::mem::MaybeUninit;

use crate::line::prefetch_to_write;
use crate::sync::{AtomicU32, Ordering, UnsafeCell};
use crate::when::cown::Header;

/// Objects of one `when` at most.
pub(crate) const MAX_OBJECTS: usize = 8;
/// Bytes of closure and pointers that a record holds; larger ones are boxed.
pub(crate) const INLINE: usize = 96;

/// Runs or drops the closure in a record's body; true if it was run to its end.
pub(crate) type Run = unsafe fn(*mut Body, Fate) -> Ended;

/// What is to become of a closure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is called.
    Run,
    /// It is dropped, because an object is poisoned.
    Refuse,
}

/// How a closure ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It returned, or was dropped as told.
    Well,
    /// It panicked with this message.
    Panicked(String),
}

/// Room for a closure.
#[repr(C, align(16))]
#[derive(Debug)]
pub(crate) struct Body(pub(crate) MaybeUninit<[u8; INLINE]>);

/// One object's place in a record.
///
/// `next` belongs to the object's queue and is only touched under the object's lock, once the slot is queued. The rest
/// is written by the submitter before that and does not change until the record is free again.
#[derive(Debug)]
pub(crate) struct Slot {
    next: UnsafeCell<u32>,
    held: UnsafeCell<Held>,
}

/// The object of a slot and how it is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) object: *const Header,
    pub(crate) write: bool,
}

/// A record.
///
/// The countdown, the first two slots and the count are the first line: what a submission of one or two objects needs.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Behaviour {
    waiting: AtomicU32,
    next_free: UnsafeCell<u32>,
    job: UnsafeCell<Job>,
    slots: [Slot; MAX_OBJECTS],
    body: UnsafeCell<Body>,
}

/// What a record was submitted as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub(crate) run: Run,
    pub(crate) slots: u8,
}

#[expect(
    unsafe_code,
    reason = "records are handed from thread to thread by the protocols of slab, cown and ring"
)]
mod shared {
    use super::{Behaviour, Slot};

    // SAFETY: at any time one thread owns a record's cells: the submitter until it is queued, then whoever holds the
    // lock of the object concerned (`next`) or runs the record (all else), then the free chain's owner. Each hand-over
    // is a release and an acquire. The closure inside is Send, the objects behind the pointers are Send (and Sync if read).
    unsafe impl Sync for Behaviour {}
    // SAFETY: as above; records do not move between threads but with the slab.
    unsafe impl Send for Behaviour {}
    // SAFETY: as above.
    unsafe impl Sync for Slot {}
    // SAFETY: as above.
    unsafe impl Send for Slot {}
}

#[expect(
    unsafe_code,
    reason = "cells whose owner is a matter of protocol, see `shared`"
)]
impl Behaviour {
    /// A free record in a chain.
    pub(crate) fn free(next: u32) -> Self {
        unsafe fn nothing(_: *mut Body, _: Fate) -> Ended {
            Ended::Well
        }
        let slot = || Slot {
            next: UnsafeCell::new(0),
            held: UnsafeCell::new(Held {
                object: std::ptr::null(),
                write: false,
            }),
        };
        Self {
            waiting: AtomicU32::new(0),
            next_free: UnsafeCell::new(next),
            job: UnsafeCell::new(Job {
                run: nothing,
                slots: 0,
            }),
            slots: [(); MAX_OBJECTS].map(|()| slot()),
            body: UnsafeCell::new(Body(MaybeUninit::uninit())),
        }
    }

    /// Fetches what whoever fills or runs the record soon will touch.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_to_write(&raw const self.waiting);
        prefetch_to_write(&raw const self.body);
    }

    /// The next record of the free chain that the caller owns.
    pub(crate) fn next_free(&self) -> u32 {
        // SAFETY: the caller owns the chain.
        self.next_free.with(|next| unsafe { *next })
    }

    pub(crate) fn set_next_free(&self, id: u32) {
        // SAFETY: the caller owns the record, it is not in a shared chain yet.
        self.next_free.with_mut(|next| unsafe { *next = id });
    }

    /// Lets the caller write the closure; it owns the free record.
    pub(crate) fn write_body(&self, write: impl FnOnce(*mut Body)) {
        self.body.with_mut(write);
    }

    /// The submitter says what this is.
    pub(crate) fn set_job(&self, run: Run, held: &[Held]) {
        let slots = held.len() as u8;
        // SAFETY: the submitter owns the record until it queues it.
        self.job
            .with_mut(|job| unsafe { *job = Job { run, slots } });
        for (slot, held) in self.slots.iter().zip(held) {
            // SAFETY: as above.
            slot.held.with_mut(|place| unsafe { *place = *held });
        }
    }

    /// What this was submitted as. For whoever runs it.
    pub(crate) fn job(&self) -> Job {
        // SAFETY: it was written before the record was queued, and whoever runs it came by it through that queue.
        self.job.with(|job| unsafe { *job })
    }

    /// The object of a slot.
    pub(crate) fn held(&self, slot: usize) -> Held {
        // SAFETY: written before the record was queued; read by who holds the queue's lock or runs the record.
        self.slots[slot].held.with(|held| unsafe { *held })
    }

    /// The slot behind this one in its object's queue.
    ///
    /// # Safety
    /// The caller holds the object's lock, and the slot has a successor.
    pub(crate) unsafe fn next(&self, slot: usize) -> u32 {
        // SAFETY: the object's lock is held.
        self.slots[slot].next.with(|next| unsafe { *next })
    }

    /// Puts a slot behind this one.
    ///
    /// # Safety
    /// The caller holds the object's lock, and this slot is its queue's last.
    pub(crate) unsafe fn set_next(&self, slot: usize, successor: u32) {
        // SAFETY: the object's lock is held.
        self.slots[slot]
            .next
            .with_mut(|next| unsafe { *next = successor });
    }

    /// So many objects are still to come. Before the record's slots can be granted by others.
    pub(crate) fn wait_for(&self, objects: u32) {
        self.waiting.store(objects, Ordering::Relaxed);
    }

    /// One object has come; whether it was the last.
    #[inline]
    pub(crate) fn granted(&self) -> bool {
        // Release and acquire: who takes the last step has all that the holders of the other objects did.
        self.waiting.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Runs or drops the closure.
    ///
    /// # Safety
    /// The record was submitted, all its objects have come, and this is called once.
    pub(crate) unsafe fn run(&self, fate: Fate) -> Ended {
        let run = self.job().run;
        self.body.with_mut(|body| {
            // SAFETY: `run` was set together with the body, which nobody has consumed yet.
            unsafe { run(body, fate) }
        })
    }
}
