//! The record of one submitted body: what it waits for, what it holds, and the closure itself.

use std::mem::MaybeUninit;

use crate::line::{prefetch, prefetch_to_write};
use crate::sync::{AtomicPtr, AtomicU32, Ordering, UnsafeCell};
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

/// Some objects' places in a record.
///
/// `next` belongs to the object's queue and is only touched under the object's lock, once the slot is queued. The object
/// is written by the submitter before that and does not change until the record is free again; it is atomic because
/// workers look at it some time before the record is theirs, to fetch the object.
#[derive(Debug)]
struct Slots<const N: usize> {
    next: [UnsafeCell<u32>; N],
    /// The lowest bit says whether it is held to write.
    objects: [AtomicPtr<Header>; N],
}

impl<const N: usize> Slots<N> {
    fn new() -> Self {
        Self {
            next: std::array::from_fn(|_| UnsafeCell::new(0)),
            objects: std::array::from_fn(|_| AtomicPtr::default()),
        }
    }
}

/// The object of a slot and how it is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) object: *const Header,
    pub(crate) write: bool,
}

/// A record.
///
/// All that a request for one or two objects with a closure of sixteen bytes needs is on the first line, the pointers to
/// the objects included in the sixteen bytes.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Behaviour {
    waiting: AtomicU32,
    next_free: UnsafeCell<u32>,
    run: UnsafeCell<Run>,
    /// The number of objects, and [`LONG`]. Atomic for the same reason as the objects.
    shape: AtomicU32,
    near: Slots<NEAR>,
    body: UnsafeCell<Body>,
    far: Slots<{ MAX_OBJECTS - NEAR }>,
}

/// Objects on a record's first line.
const NEAR: usize = 2;
/// Bytes of the body on a record's first line.
const NEAR_BODY: usize = 16;
/// Set in the shape if the body goes on beyond the first line.
const LONG: u32 = 1 << 8;

#[cfg(not(any(loom, shuttle)))]
const _: () = assert!(std::mem::offset_of!(Behaviour, body) + NEAR_BODY == 64);

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
    use super::Behaviour;

    // SAFETY: at any time one thread owns a record's cells: the submitter until it is queued, then whoever holds the
    // lock of the object concerned (`next`) or runs the record (all else), then the free chain's owner. Each hand-over
    // is a release and an acquire. The closure inside is Send, the objects behind the pointers are Send (and Sync if read).
    unsafe impl Sync for Behaviour {}
    // SAFETY: as above; records do not move between threads but with the slab.
    unsafe impl Send for Behaviour {}
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
        Self {
            waiting: AtomicU32::new(0),
            next_free: UnsafeCell::new(next),
            run: UnsafeCell::new(nothing),
            shape: AtomicU32::new(0),
            near: Slots::new(),
            body: UnsafeCell::new(Body(MaybeUninit::uninit())),
            far: Slots::new(),
        }
    }

    /// Fetches what whoever fills the record soon will touch, if it will be like one with a body of this size.
    #[inline]
    pub(crate) fn prefetch_to_fill(&self, body: usize) {
        prefetch_to_write(self);
        if body > NEAR_BODY {
            prefetch_to_write((&raw const self.body).cast::<u8>().wrapping_add(NEAR_BODY));
        }
    }

    /// Fetches the line that tells whoever runs the record what else to fetch.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_to_write(self);
    }

    /// Fetches the rest of a record that is run soon, and its first objects: a hint, it may be another request's by now.
    #[inline]
    pub(crate) fn prefetch_to_run(&self) {
        let shape = self.shape.load(Ordering::Relaxed);
        if shape & LONG != 0 {
            prefetch((&raw const self.body).cast::<u8>().wrapping_add(NEAR_BODY));
        }
        let n = (shape & !LONG) as usize;
        for object in &self.near.objects[..n.min(NEAR)] {
            prefetch_to_write(object.load(Ordering::Relaxed));
        }
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

    /// The submitter says what this is. `body` is the size of what [`Behaviour::write_body`] wrote.
    pub(crate) fn set_job(&self, run: Run, body: usize, held: &[Held]) {
        // SAFETY: the submitter owns the record until it queues it.
        self.run.with_mut(|place| unsafe { *place = run });
        let long = if body > NEAR_BODY { LONG } else { 0 };
        self.shape
            .store(held.len() as u32 | long, Ordering::Relaxed);
        for (slot, held) in held.iter().enumerate() {
            let object = held
                .object
                .cast_mut()
                .map_addr(|address| address | usize::from(held.write));
            self.object(slot).store(object, Ordering::Relaxed);
        }
    }

    /// What this was submitted as. For whoever runs it.
    pub(crate) fn job(&self) -> Job {
        // SAFETY: it was written before the record was queued, and whoever runs it came by it through that queue.
        let run = self.run.with(|run| unsafe { *run });
        let slots = self.shape.load(Ordering::Relaxed) as u8;
        Job { run, slots }
    }

    /// The object of a slot. For whoever has come by the record through a queue.
    #[inline]
    pub(crate) fn held(&self, slot: usize) -> Held {
        let object = self.object(slot).load(Ordering::Relaxed);
        Held {
            object: object.map_addr(|address| address & !1),
            write: object.addr() & 1 == 1,
        }
    }

    #[inline(always)]
    fn object(&self, slot: usize) -> &AtomicPtr<Header> {
        match self.near.objects.get(slot) {
            Some(object) => object,
            None => &self.far.objects[slot - NEAR],
        }
    }

    #[inline(always)]
    fn next_of(&self, slot: usize) -> &UnsafeCell<u32> {
        match self.near.next.get(slot) {
            Some(next) => next,
            None => &self.far.next[slot - NEAR],
        }
    }

    /// The slot behind this one in its object's queue.
    ///
    /// # Safety
    /// The caller holds the object's lock, and the slot has a successor.
    pub(crate) unsafe fn next(&self, slot: usize) -> u32 {
        // SAFETY: the object's lock is held.
        self.next_of(slot).with(|next| unsafe { *next })
    }

    /// Puts a slot behind this one.
    ///
    /// # Safety
    /// The caller holds the object's lock, and this slot is its queue's last.
    pub(crate) unsafe fn set_next(&self, slot: usize, successor: u32) {
        // SAFETY: the object's lock is held.
        self.next_of(slot)
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
