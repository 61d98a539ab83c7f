//! Memory for blocks: many at once, written before they are handed out, each on lines of its own.
//!
//! A thread that begins to count takes a block that is ready; the page faults of new memory were paid for when the slab
//! was made. Slabs never move and never shrink: a block's address is good for as long as its slab.

#![expect(
    unsafe_code,
    reason = "a block is seen as the user's struct by its thread and as words by readers"
)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::ptr::NonNull;

use crate::line::APART;
use crate::schema::Counters;
use crate::sync::{AtomicU64, AtomicUsize, Lock, Ordering};

/// Words of one chunk. loom's atomics are larger and made one by one.
const CHUNK_WORDS: usize = if cfg!(loom) { 2 } else { APART / 8 };

/// The unit of allocation: what may not be shared by two threads.
#[cfg(not(loom))]
type Chunk = crate::isolated::Isolated<[AtomicU64; CHUNK_WORDS]>;
#[cfg(loom)]
type Chunk = [AtomicU64; CHUNK_WORDS];

// Chunks follow each other without gaps, so that a slot is one array of words.
const _: () = assert!(size_of::<Chunk>() == CHUNK_WORDS * size_of::<AtomicU64>());

/// A number of blocks in one piece of memory.
pub(crate) struct Slab {
    chunks: Box<[Chunk]>,
    chunks_per_slot: usize,
    /// The words of a block; the rest of its last chunk stays unused.
    words: usize,
    slots: Box<[Lock<Slot>]>,
    /// Blocks behind these were never used and hold zeros.
    used: AtomicUsize,
}

/// What is known of a block besides its words.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Who counts in it; nobody if the thread ended.
    pub(crate) owner: Option<Owner>,
    /// The words from which its owner's own counts start; zeros if there are none.
    pub(crate) base: Option<Box<[u64]>>,
}

/// A thread as a reader sees it.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    pub(crate) name: Arc<str>,
    pub(crate) number: u64,
}

impl Slab {
    pub(crate) fn new(words: usize, slots: usize) -> Self {
        let chunks_per_slot = words.div_ceil(CHUNK_WORDS).max(1);
        let chunk = || -> [AtomicU64; CHUNK_WORDS] { core::array::from_fn(|_| AtomicU64::new(0)) };
        let n = chunks_per_slot.saturating_mul(slots);
        // Writing all of it takes the page faults now.
        let chunks = (0..n).map(|_| Chunk::from(chunk())).collect();
        Self {
            chunks,
            chunks_per_slot,
            words,
            slots: (0..slots).map(|_| Lock::new(Slot::default())).collect(),
            used: AtomicUsize::new(0),
        }
    }

    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.chunks) + size_of_val(&*self.slots)
    }

    /// How many blocks from the first on may have been counted in.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    /// A block is about to be counted in. Callers take turns (the list of free blocks is locked).
    pub(crate) fn mark_used(&self, slot: usize) {
        if slot >= self.used.load(Ordering::Relaxed) {
            self.used.store(slot + 1, Ordering::Release);
        }
    }

    pub(crate) fn slot(&self, slot: usize) -> Option<&Lock<Slot>> {
        self.slots.get(slot)
    }

    /// The words of a block; none if there is no such block.
    pub(crate) fn words(&self, slot: usize) -> &[AtomicU64] {
        let first = slot * self.chunks_per_slot;
        let Some(chunks) = self.chunks.get(first..first + self.chunks_per_slot) else {
            return &[];
        };
        let words: *const AtomicU64 = chunks.as_ptr().cast();
        // SAFETY: `chunks` is `chunks_per_slot` chunks in a row, and each is `CHUNK_WORDS` words without gaps (asserted
        // above), so at least `self.words` words (`new` rounds up) are there, initialised, for as long as `self` is
        // borrowed. Words are atomics, so other threads' accesses are no conflict.
        unsafe { core::slice::from_raw_parts(words, self.words) }
    }

    /// The first word of the first block; those of the other blocks follow at multiples of [`stride`](Self::stride).
    #[cfg(all(feature = "std", not(loom)))]
    pub(crate) fn start(&self) -> *const AtomicU64 {
        self.chunks.as_ptr().cast()
    }

    /// How far apart blocks are, in bytes.
    #[cfg(all(feature = "std", not(loom)))]
    pub(crate) fn stride(&self) -> usize {
        self.chunks_per_slot * size_of::<Chunk>()
    }

    /// A block as its owner sees it.
    ///
    /// The type must be the one whose words the slab was made for.
    pub(crate) fn block<C: Counters>(&self, slot: usize) -> NonNull<C> {
        debug_assert_eq!(C::WORDS, self.words);
        NonNull::from(self.words(slot)).cast()
    }
}

impl fmt::Debug for Slab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab({} of {})", self.used(), self.len())
    }
}

/// A block that is never counted in: shows where in a block a field is.
#[derive(Debug)]
pub(crate) struct Probe {
    slab: Slab,
}

impl Probe {
    pub(crate) fn of<C: Counters>() -> Self {
        let slab = Slab::new(C::WORDS, 1);
        Self { slab }
    }

    /// The first word of a field.
    ///
    /// The type must be the one that the probe was made for. Panics if what is picked is no part of the block.
    #[inline]
    pub(crate) fn word_of<C: Counters, F: Counters>(&self, pick: impl FnOnce(&C) -> &F) -> usize {
        let block = self.slab.block::<C>(0);
        // SAFETY: there is one block, it lives as long as `self`, and nobody writes it but through `pick`, whose updates
        // nobody reads.
        let block: &C = unsafe { block.as_ref() };
        let start = core::ptr::from_ref(block).addr();
        let offset = core::ptr::from_ref(pick(block)).addr().wrapping_sub(start);
        assert!(
            offset.saturating_add(size_of::<F>()) <= size_of::<C>(),
            "the field that was picked is no part of the block that was given"
        );
        offset / size_of::<AtomicU64>()
    }
}
