//! The slab of behaviour records: bounded for whoever submits from outside, recycled, line-aligned.
//!
//! Records come in chunks; one chunk is all that outside submitters may have in flight, and waiting for a free record is
//! the back-pressure. A body that submits must not wait (it holds objects that others may need to finish), so for bodies
//! there is a second pool that grows by a chunk when it is empty, up to a depth that [`Slab::MAX_CHUNKS`] limits.
//!
//! Free records are chains linked through the records. Workers give back chains, submitters take *all* free chains at
//! once and keep them in their lane: taking everything with one swap has no ABA problem.

use crate::line::Line;
use crate::sync::{AtomicU32, Mutex, Ordering, lock};
use crate::when::behaviour::Behaviour;

/// The end of a chain of free records.
pub(crate) const NONE: u32 = u32::MAX;

/// Whose records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pool {
    /// Bounded, for submitters from outside.
    Outside,
    /// Growing, for bodies that submit.
    Inside,
}

/// All records of a runtime.
#[derive(Debug)]
pub(crate) struct Slab {
    /// Per pool, the top of the chain of chains that workers gave back.
    free: [Line<AtomicU32>; 2],
    chunk: usize,
    chunks: Box<[OnceChunk]>,
    grown: Mutex<usize>,
}

#[derive(Debug)]
struct OnceChunk(std::sync::OnceLock<Box<[Behaviour]>>);

impl Slab {
    /// Chunks at most, the first included.
    pub(crate) const MAX_CHUNKS: usize = 256;

    /// A slab of `n` records, all free.
    pub(crate) fn new(n: usize) -> Self {
        let chunks: Box<[OnceChunk]> = (0..Self::MAX_CHUNKS)
            .map(|_| OnceChunk(std::sync::OnceLock::new()))
            .collect();
        let slab = Self {
            free: [
                Line::new(AtomicU32::new(NONE)),
                Line::new(AtomicU32::new(NONE)),
            ],
            chunk: n.next_power_of_two(),
            chunks,
            grown: Mutex::new(1),
        };
        slab.fill(0, n);
        slab.free(Pool::Outside).store(0, Ordering::Relaxed);
        slab
    }

    fn free(&self, pool: Pool) -> &AtomicU32 {
        &self.free[pool as usize]
    }

    /// Whose the record of an id is.
    pub(crate) fn pool(&self, id: u32) -> Pool {
        if (id as usize) < self.chunk {
            Pool::Outside
        } else {
            Pool::Inside
        }
    }

    fn fill(&self, at: usize, n: usize) {
        let base = at * self.chunk;
        let next = |i: usize| {
            if i + 1 == n {
                NONE
            } else {
                (base + i + 1) as u32
            }
        };
        let records = (0..n).map(|i| Behaviour::free(next(i))).collect();
        let _ = self.chunks[at].0.set(records);
    }

    /// The record of an id that this slab gave out.
    #[inline(always)]
    pub(crate) fn get(&self, id: u32) -> &Behaviour {
        let (chunk, i) = (id as usize / self.chunk, id as usize % self.chunk);
        match self.chunks[chunk].0.get() {
            Some(records) => &records[i],
            None => unreachable!("ids come from chunks that exist"),
        }
    }

    /// The record of an id that may not exist, if it is one of the first chunk.
    #[inline]
    pub(crate) fn first(&self, id: u32) -> Option<&Behaviour> {
        self.chunks[0].0.get()?.get(id as usize)
    }

    /// Takes all chains that were given back; [`NONE`] if there are none.
    pub(crate) fn take_all(&self, pool: Pool) -> u32 {
        let free = self.free(pool);
        if free.load(Ordering::Relaxed) == NONE {
            return NONE;
        }
        // Acquire: the links were written by those who gave the chains back.
        free.swap(NONE, Ordering::Acquire)
    }

    /// Gives a chain back, whose last record's link is free to use.
    pub(crate) fn give_back(&self, pool: Pool, first: u32, last: u32) {
        let free = self.free(pool);
        let mut top = free.load(Ordering::Relaxed);
        loop {
            self.get(last).set_next_free(top);
            // Release: whoever takes the chain sees its links and that the records are done with.
            match free.compare_exchange(top, first, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// A new chunk as a chain, for a body that must not wait.
    ///
    /// # Panics
    /// If [`Slab::MAX_CHUNKS`] are in use: bodies submit faster than anything ends.
    pub(crate) fn grow(&self) -> u32 {
        let mut grown = lock(&self.grown);
        let at = *grown;
        assert!(
            at < Self::MAX_CHUNKS,
            "bodies have submitted {} times the bound on what may be in flight: submit less from within bodies, or raise max_in_flight",
            Self::MAX_CHUNKS
        );
        self.fill(at, self.chunk);
        *grown += 1;
        (at * self.chunk) as u32
    }
}
