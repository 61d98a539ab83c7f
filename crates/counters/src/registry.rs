//! Who counts where, and how what they count becomes one: the untyped heart of [`PerThread`](crate::PerThread).
//!
//! # How nothing is lost or counted twice
//! A counter's words only ever grow, and only their owner writes them. So:
//!
//! - *total* = Σ over all blocks − *base*, where *base* is what the last reset saw. A reset writes nothing that the owner
//!   reads: an update is either in what the reset saw or in what comes after.
//! - A thread that ends leaves its words as they are. The next owner of the block goes on from there, so the sum never
//!   jumps. Only the block's own base (for the per-thread view) moves to where the last owner stopped.
//! - Largest and smallest values cannot be told apart by subtraction, so a reset takes them with an atomic swap. The owner
//!   stores a value if it is greater than the word. If it read the word before the swap and stores after it, the value
//!   counts after the reset; if it did not store because the word was as large, what it saw is in what the reset took.
//!   (The owner's store does not depend on what it overwrites, which is why this works here and not for sums.)
//!
//! All reads and resets of one instance take turns; owners never wait for them.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec;
use alloc::vec::Vec;

use crate::schema::{Fold, Run, Schema};
use crate::slab::{Owner, Slab, Slot};
use crate::sync::{AtomicU64, Lock, Ordering};

/// Slabs grow up to so many blocks.
const LARGEST_SLAB: usize = 1024;

/// All blocks of one instance.
#[derive(Debug)]
pub(crate) struct Registry {
    schema: Arc<Schema>,
    /// Blocks that nobody counts in. Held for moments only: threads that begin wait for it.
    free: Lock<Free>,
    /// Held while someone reads, resets, or a thread ends. Taken after `free`, never before it.
    books: Lock<Books>,
}

#[derive(Debug)]
struct Free {
    slots: Vec<(Arc<Slab>, usize)>,
    /// How many blocks there are in all.
    total: usize,
    next_number: u64,
}

#[derive(Debug)]
struct Books {
    slabs: Vec<Arc<Slab>>,
    /// What the last reset saw, for sums; zero for other words.
    base: Box<[u64]>,
    /// What threads that ended saw since the last reset, for largest and latest values; zero for other words.
    ended: Box<[u64]>,
    resets: u64,
}

/// Words of all threads as one.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) words: Box<[u64]>,
    /// How many resets there were before.
    pub(crate) resets: u64,
}

/// Words by thread.
#[derive(Clone, Debug)]
pub(crate) struct ByThread {
    pub(crate) total: Reading,
    pub(crate) threads: Vec<(Owner, Box<[u64]>)>,
    /// What belongs to no thread of the list.
    pub(crate) ended: Box<[u64]>,
}

impl Registry {
    pub(crate) fn new(schema: Schema, blocks: usize) -> Self {
        let words = schema.words();
        let registry = Self {
            schema: Arc::new(schema),
            free: Lock::new(Free {
                slots: Vec::new(),
                total: 0,
                next_number: 0,
            }),
            books: Lock::new(Books {
                slabs: Vec::new(),
                base: vec![0; words].into(),
                ended: vec![0; words].into(),
                resets: 0,
            }),
        };
        registry.reserve(blocks);
        registry
    }

    pub(crate) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Makes at least so many blocks ready for threads that begin.
    pub(crate) fn reserve(&self, blocks: usize) {
        let mut free = self.free.lock();
        let missing = blocks.saturating_sub(free.slots.len());
        if missing > 0 {
            self.grow(&mut free, missing);
        }
    }

    fn grow(&self, free: &mut Free, blocks: usize) {
        let slab = Arc::new(Slab::new(self.schema.words(), blocks));
        self.books.lock().slabs.push(Arc::clone(&slab));
        free.total += blocks;
        // The list is used from its end: the first blocks first, so that readers can stop at the last one used.
        let slots = (0..blocks).rev().map(|slot| (Arc::clone(&slab), slot));
        free.slots.extend(slots);
        // Every block may come back at once when threads end; that is no time to allocate.
        let total = free.total;
        let n = free.slots.len();
        free.slots.reserve(total.saturating_sub(n));
    }

    /// Gives a block to a new owner.
    pub(crate) fn claim(self: &Arc<Self>, name: Arc<str>) -> Lease {
        let mut free = self.free.lock();
        let number = free.next_number;
        free.next_number += 1;
        let (slab, slot) = loop {
            match free.slots.pop() {
                Some(found) => break found,
                None => {
                    let more = free.total.clamp(1, LARGEST_SLAB);
                    self.grow(&mut free, more);
                }
            }
        };
        slab.mark_used(slot);
        drop(free);
        if let Some(state) = slab.slot(slot) {
            state.lock().owner = Some(Owner { name, number });
        }
        let registry = Arc::downgrade(self);
        Lease {
            slab,
            slot,
            number,
            registry,
        }
    }

    /// Takes a block back; called by its owner, for the last time. An owner that was put out before is no owner.
    fn retire(&self, slab: Arc<Slab>, slot: usize, number: u64) {
        {
            let mut books = self.books.lock();
            let owns = |state: &Lock<Slot>| {
                let state = state.lock();
                (state.owner.as_ref()).is_some_and(|owner| owner.number == number)
            };
            if !slab.slot(slot).is_some_and(owns) {
                return;
            }
            let words = slab.words(slot);
            for run in self.schema.runs() {
                let (Some(own), Some(ended)) = (
                    words.get(run.words.clone()),
                    books.ended.get_mut(run.words.clone()),
                ) else {
                    continue;
                };
                match run.fold {
                    Fold::Sum => {}
                    Fold::Level => own.iter().for_each(|word| word.store(0, Ordering::Relaxed)),
                    Fold::Greatest => take_greatest(own, ended),
                    Fold::Latest => {
                        fold(run.fold, own, ended);
                        own.iter().for_each(|word| word.store(0, Ordering::Relaxed));
                    }
                }
            }
            if let Some(state) = slab.slot(slot) {
                let mut state = state.lock();
                state.owner = None;
                self.move_base(&mut state, words);
            }
        }
        self.free.lock().slots.push((slab, slot));
    }

    /// A block's own counts start from here.
    fn move_base(&self, state: &mut Slot, words: &[AtomicU64]) {
        let base = state
            .base
            .get_or_insert_with(|| vec![0; self.schema.words()].into());
        for run in self.schema.runs() {
            let (Some(base), Some(words)) = (
                base.get_mut(run.words.clone()),
                words.get(run.words.clone()),
            ) else {
                continue;
            };
            if run.fold == Fold::Sum {
                for (base, word) in base.iter_mut().zip(words) {
                    *base = word.load(Ordering::Relaxed);
                }
            }
        }
    }

    /// All threads as one.
    pub(crate) fn read(&self) -> Reading {
        let mut words = vec![0; self.schema.words()].into_boxed_slice();
        let resets = self.read_into(&mut words);
        Reading { words, resets }
    }

    /// All threads as one, into memory that is there already; returns the number of resets.
    pub(crate) fn read_into(&self, into: &mut [u64]) -> u64 {
        let books = self.books.lock();
        books.start(into);
        for (slab, slot) in books.blocks() {
            self.add_block(slab.words(slot), into);
        }
        books.resets
    }

    fn add_block(&self, words: &[AtomicU64], into: &mut [u64]) {
        for Run {
            fold: by,
            words: range,
        } in self.schema.runs()
        {
            if let (Some(words), Some(into)) =
                (words.get(range.clone()), into.get_mut(range.clone()))
            {
                fold(*by, words, into);
            }
        }
    }

    /// Some neighbouring words of all threads as one, without reading the others. `None` if they cross cells.
    pub(crate) fn read_words(&self, range: core::ops::Range<usize>) -> Option<Vec<u64>> {
        let books = self.books.lock();
        let mut all = vec![0; range.len()];
        for run in self.schema.runs() {
            let start = run.words.start.max(range.start);
            let end = run.words.end.min(range.end);
            if start >= end {
                continue;
            }
            let into = all.get_mut(start - range.start..end - range.start)?;
            for (i, word) in into.iter_mut().enumerate() {
                let base = books.base.get(start + i)?;
                let ended = books.ended.get(start + i)?;
                *word = ended.wrapping_sub(*base);
            }
            for (slab, slot) in books.blocks() {
                fold(run.fold, slab.words(slot).get(start..end)?, into);
            }
        }
        Some(all)
    }

    /// All threads as one, and a new start: everything counted is in exactly one of what successive calls return.
    pub(crate) fn take(&self) -> Reading {
        let mut words = vec![0; self.schema.words()].into_boxed_slice();
        let mut books = self.books.lock();
        books.start(&mut words);
        let mut base = vec![0_u64; self.schema.words()].into_boxed_slice();
        let mut seen = vec![0_u64; self.schema.words()].into_boxed_slice();
        for (slab, slot) in books.blocks() {
            let own = slab.words(slot);
            for run in self.schema.runs() {
                let range = || run.words.clone();
                let (Some(own), Some(into), Some(base), Some(seen)) = (
                    own.get(range()),
                    words.get_mut(range()),
                    base.get_mut(range()),
                    seen.get_mut(range()),
                ) else {
                    continue;
                };
                match run.fold {
                    Fold::Sum => {
                        // One load serves the total, the new base and the thread's own base, so that they agree.
                        for (i, word) in own.iter().enumerate() {
                            let value = word.load(Ordering::Relaxed);
                            into[i] = into[i].wrapping_add(value);
                            base[i] = base[i].wrapping_add(value);
                            seen[i] = value;
                        }
                    }
                    Fold::Greatest => take_greatest(own, into),
                    Fold::Level | Fold::Latest => fold(run.fold, own, into),
                }
            }
            if let Some(state) = slab.slot(slot) {
                let mut state = state.lock();
                match &mut state.base {
                    Some(base) => base.copy_from_slice(&seen),
                    none => *none = Some(seen.clone()),
                }
            }
        }
        books.base = base;
        for run in self.schema.runs() {
            if run.fold == Fold::Greatest
                && let Some(ended) = books.ended.get_mut(run.words.clone())
            {
                ended.fill(0);
            }
        }
        let resets = books.resets;
        books.resets += 1;
        Reading { words, resets }
    }

    /// Each thread, and all as one, from the same reads.
    pub(crate) fn by_thread(&self) -> ByThread {
        let n = self.schema.words();
        let books = self.books.lock();
        let mut total = vec![0; n].into_boxed_slice();
        let mut ended = vec![0; n].into_boxed_slice();
        books.start(&mut total);
        books.start(&mut ended);
        let mut threads = Vec::new();
        for (slab, slot) in books.blocks() {
            let mut own: Box<[u64]> = (slab.words(slot).iter())
                .map(|word| word.load(Ordering::Acquire))
                .collect();
            self.add_values(&own, &mut total);
            let Some(state) = slab.slot(slot) else {
                continue;
            };
            let state = state.lock();
            // What the block had before this owner, or all of it, belongs to threads that ended.
            let Some(owner) = &state.owner else {
                self.add_values(&own, &mut ended);
                continue;
            };
            if let Some(base) = &state.base {
                for run in self.schema.runs() {
                    if run.fold != Fold::Sum {
                        continue;
                    }
                    for i in run.words.clone() {
                        if let (Some(own), Some(base), Some(ended)) =
                            (own.get_mut(i), base.get(i), ended.get_mut(i))
                        {
                            *own = own.wrapping_sub(*base);
                            *ended = ended.wrapping_add(*base);
                        }
                    }
                }
            }
            threads.push((owner.clone(), own));
        }
        threads.sort_by_key(|(owner, _)| owner.number);
        let resets = books.resets;
        ByThread {
            total: Reading {
                words: total,
                resets,
            },
            threads,
            ended,
        }
    }

    fn add_values(&self, own: &[u64], into: &mut [u64]) {
        for Run { fold, words: range } in self.schema.runs() {
            if let (Some(own), Some(into)) = (own.get(range.clone()), into.get_mut(range.clone())) {
                fold_values(*fold, own, into);
            }
        }
    }

    /// Every block but this one loses its owner: in a child process made by `fork`, whose other threads do not exist.
    pub(crate) fn retire_others(&self, keep: &[Option<&Lease>]) {
        let slabs = self.books.lock().slabs.clone();
        for slab in slabs {
            for slot in 0..slab.used() {
                let kept = (keep.iter().flatten())
                    .any(|lease| Arc::ptr_eq(&lease.slab, &slab) && lease.slot == slot);
                let state = slab.slot(slot).map(Lock::lock);
                let owner = state.and_then(|state| state.owner.as_ref().map(|owner| owner.number));
                if let Some(number) = owner
                    && !kept
                {
                    self.retire(Arc::clone(&slab), slot, number);
                }
            }
        }
    }

    /// Bytes of all blocks, used or not.
    pub(crate) fn bytes(&self) -> usize {
        let books = self.books.lock();
        books.slabs.iter().map(|slab| slab.bytes()).sum()
    }
}

impl Books {
    /// What a reading starts from before any block is added: what ended threads left, less what a reset saw.
    fn start(&self, into: &mut [u64]) {
        for ((into, ended), base) in into.iter_mut().zip(&self.ended).zip(&self.base) {
            *into = ended.wrapping_sub(*base);
        }
    }

    /// All blocks that were ever used.
    fn blocks(&self) -> impl Iterator<Item = (&Slab, usize)> {
        let slabs = self.slabs.iter();
        slabs.flat_map(|slab| (0..slab.used()).map(move |slot| (&**slab, slot)))
    }
}

/// Adds words of one block to what was read of others.
fn fold(by: Fold, words: &[AtomicU64], into: &mut [u64]) {
    match by {
        Fold::Sum | Fold::Level => {
            for (into, word) in into.iter_mut().zip(words) {
                *into = into.wrapping_add(word.load(Ordering::Relaxed));
            }
        }
        Fold::Greatest => {
            for (into, word) in into.iter_mut().zip(words) {
                *into = (*into).max(word.load(Ordering::Relaxed));
            }
        }
        Fold::Latest => {
            for (into, pair) in into.chunks_exact_mut(2).zip(words.chunks_exact(2)) {
                if let ([stamp, value], [own_stamp, own_value]) = (into, pair) {
                    // The stamp first: then the value is this stamp's or a newer one.
                    let own_stamp = own_stamp.load(Ordering::Acquire);
                    if own_stamp > *stamp {
                        *stamp = own_stamp;
                        *value = own_value.load(Ordering::Relaxed);
                    }
                }
            }
        }
    }
}

/// Takes largest values away, whatever their owner does at the same time.
fn take_greatest(words: &[AtomicU64], into: &mut [u64]) {
    for (into, word) in into.iter_mut().zip(words) {
        *into = (*into).max(word.swap(0, Ordering::Relaxed));
    }
}

/// The same as `fold` with words that were read before.
pub(crate) fn fold_values(by: Fold, own: &[u64], into: &mut [u64]) {
    match by {
        Fold::Sum | Fold::Level => {
            for (into, own) in into.iter_mut().zip(own) {
                *into = into.wrapping_add(*own);
            }
        }
        Fold::Greatest => {
            for (into, own) in into.iter_mut().zip(own) {
                *into = (*into).max(*own);
            }
        }
        Fold::Latest => {
            for (into, pair) in into.chunks_exact_mut(2).zip(own.chunks_exact(2)) {
                if let ([stamp, value], [own_stamp, own_value]) = (into, pair)
                    && own_stamp > stamp
                {
                    (*stamp, *value) = (*own_stamp, *own_value);
                }
            }
        }
    }
}

/// The right to count in a block, until it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    pub(crate) slab: Arc<Slab>,
    pub(crate) slot: usize,
    number: u64,
    /// Weak, so that what is counted for nobody does not keep the instance.
    pub(crate) registry: Weak<Registry>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            registry.retire(Arc::clone(&self.slab), self.slot, self.number);
        }
    }
}
