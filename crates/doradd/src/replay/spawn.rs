//! The dependency graph, built on line: which transactions in flight a new one has to wait for.
//!
//! Each row has a tail, a word that only the spawning thread touches: who named the row last, and whether to read. A new
//! writer waits for the last writer, or for all readers since; a new reader for the last writer. Waiting for a
//! transaction means to be in its list of successors, which it closes when it ends: one compare-exchange to get in, one
//! swap to close. A transaction that cannot be joined any more has released its rows.
//!
//! A list begins with an array of [`FAN`] records, which is one line to pass from the dispatcher's core to the worker's. Who
//! comes later is linked, newest first, through nodes in the records of those who wait (or of the readers they wait for).
//!
//! Readers of a row form a chain through their records (`before`), so that the next writer finds them all. A chain ends
//! where a reader is too old to be in flight: everything before it has ended as well, because records are used again in
//! the order of the log.

use crate::line::prefetch_to_write;
use crate::replay::table::Tail;
use crate::replay::window::{Chain, FAN, NOBODY, RELEASED, Window};
use crate::sync::Ordering;

/// Added to the countdown while it is not known yet; more than edges can be.
const GUARD: u32 = 1 << 30;

/// Who named a row last: 0 for nobody, else the number of the transaction plus one, the place of the row in it, and
/// whether it reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Named(u64);

impl Named {
    fn new(sequence: u64, slot: usize, reads: bool) -> Self {
        Self((sequence + 1) << 8 | (slot as u64) << 1 | u64::from(reads))
    }

    /// The sequence number, slot, and whether it reads, of a transaction that can be in flight when `now` is spawned.
    #[inline(always)]
    fn recent(self, now: u64, records: u64) -> Option<(u64, usize, bool)> {
        let sequence = (self.0 >> 8).checked_sub(1)?;
        (now - sequence < records).then_some((
            sequence,
            (self.0 >> 1 & 0x7F) as usize,
            self.0 & 1 == 1,
        ))
    }
}

/// A node of a list of successors: the incoming or the outgoing edge of a named row, and never [`NOBODY`].
fn node(place: u32, outgoing: bool) -> u32 {
    (place << 1 | u32::from(outgoing)) + 1
}

/// Bits of a list's word that count who is in the array; the others are the first node.
const COUNT_BITS: u32 = 5;
const COUNT: u32 = (1 << COUNT_BITS) - 1;
const _: () = assert!(FAN < COUNT as usize);

/// Named rows of a window at most, so that nodes fit beside the count and none looks like [`RELEASED`].
pub(crate) const MAX_PLACES: usize = (1 << (31 - COUNT_BITS)) - 2;

#[expect(unsafe_code, reason = "cells that belong to the spawning thread")]
impl<T> Window<T> {
    /// Joins a transaction to the graph; whether it waits for nobody and is ready.
    ///
    /// # Safety
    /// The caller is the only spawning thread, this is the next number, and the transaction's rows are written down.
    #[inline]
    pub(crate) unsafe fn spawn(&self, sequence: u64) -> bool {
        let id = self.id(sequence);
        let record = self.record(id);
        // The list was closed by the transaction that had this record before. Release comes with what is done next.
        record.successors.store(NOBODY, Ordering::Relaxed);
        record.waiting.store(GUARD, Ordering::Relaxed);
        let (_, n, writes) = self.task(id);
        let mut edges = 0;
        for slot in 0..n {
            let tail = self.planned(id, slot).tail.with(|tail| {
                // SAFETY: written by an earlier stage.
                unsafe { *tail }
            });
            // SAFETY: tables outlive the replay that sealed them.
            let tail: &Tail = unsafe { &*tail };
            // SAFETY: only this thread touches tails.
            let last = Named(unsafe { *tail.get() });
            let reads = writes >> slot & 1 == 0;
            let (count, becomes) = if reads {
                // SAFETY: as the caller promises.
                unsafe { self.join_reader(sequence, slot, last) }
            } else {
                // SAFETY: as the caller promises.
                unsafe { self.join_writer(sequence, slot, last) }
            };
            edges += count;
            // SAFETY: only this thread touches tails.
            unsafe { *tail.get() = becomes.0 };
        }
        if edges == 0 {
            return true;
        }
        // Acquire: those that ended meanwhile have released their rows to us.
        let left = record.waiting.fetch_sub(GUARD - edges, Ordering::AcqRel);
        left == GUARD - edges
    }

    #[inline]
    unsafe fn join_writer(&self, now: u64, slot: usize, last: Named) -> (u32, Named) {
        let id = self.id(now);
        let becomes = Named::new(now, slot, false);
        match last.recent(now, self.records()) {
            None => (0, becomes),
            Some((before, _, false)) if before == now => (0, last),
            Some((before, _, false)) => {
                let place = self.place(id, slot);
                // SAFETY: as the caller promises.
                (unsafe { self.wait_for(before, place, false, now) }, becomes)
            }
            // SAFETY: as the caller promises.
            Some(_) => (unsafe { self.wait_for_readers(now, last) }, becomes),
        }
    }

    /// Waits for all readers since the last writer; the writer ends before them.
    #[cold]
    unsafe fn wait_for_readers(&self, now: u64, last: Named) -> u32 {
        let mut edges = 0;
        let mut link = last;
        while let Some((reader, slot, true)) = link.recent(now, self.records()) {
            let id = self.id(reader);
            if reader != now {
                let place = self.place(id, slot);
                // SAFETY: as the caller promises.
                edges += unsafe { self.wait_for(reader, place, true, now) };
            }
            link = Named(self.planned(id, slot).chain.with(|chain| {
                // SAFETY: only the spawning thread touches chains.
                unsafe { (*chain).before }
            }));
        }
        // A transaction that read the row before, and now writes it, waits for the writer already.
        edges
    }

    #[inline]
    unsafe fn join_reader(&self, now: u64, slot: usize, last: Named) -> (u32, Named) {
        let id = self.id(now);
        let becomes = Named::new(now, slot, true);
        let mut edges = 0;
        let writer = match last.recent(now, self.records()) {
            Some((before, _, _)) if before == now => return (0, last),
            None => Named(0),
            Some((_, _, false)) => last,
            Some((reader, its, true)) => {
                Named(self.planned(self.id(reader), its).chain.with(|chain| {
                    // SAFETY: only the spawning thread touches chains.
                    unsafe { (*chain).writer }
                }))
            }
        };
        if let Some((before, _, _)) = writer.recent(now, self.records()) {
            let place = self.place(id, slot);
            // SAFETY: as the caller promises.
            edges = unsafe { self.wait_for(before, place, false, now) };
        }
        self.planned(id, slot).chain.with_mut(|chain| {
            // SAFETY: only the spawning thread touches chains.
            unsafe {
                *chain = Chain {
                    before: last.0,
                    writer: writer.0,
                }
            }
        });
        (edges, becomes)
    }

    /// Puts transaction `now` into the list of one before it: 1, or 0 if it is there already, or the list is closed.
    ///
    /// If the array is full, the node is the incoming edge of `place`, or its outgoing edge.
    #[inline]
    unsafe fn wait_for(&self, before: u64, place: u32, outgoing: bool, now: u64) -> u32 {
        let (id, to) = (self.id(before), self.id(now));
        let list = &self.record(id).successors;
        // Acquire: what was done to the rows, if the list is closed.
        let mut first = list.load(Ordering::Acquire);
        loop {
            if first == RELEASED {
                return 0;
            }
            let n = (first & COUNT) as usize;
            let after = if n < FAN {
                if n > 0 && self.fan(id)[n - 1].load(Ordering::Relaxed) == to {
                    return 0;
                }
                self.fan(id)[n].store(to, Ordering::Relaxed);
                first + 1
            } else {
                // SAFETY: as the caller promises.
                unsafe { self.link(place, outgoing, first >> COUNT_BITS, to) };
                node(place, outgoing) << COUNT_BITS | n as u32
            };
            match list.compare_exchange_weak(first, after, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return 1,
                Err(now) => first = now,
            }
        }
    }

    #[cold]
    unsafe fn link(&self, place: u32, outgoing: bool, next: u32, to: u32) {
        let (id, slot) = self.of_place(place);
        let edges = self.edges(id, slot);
        if outgoing {
            // SAFETY: the edge is not in a list yet.
            edges
                .outgoing
                .with_mut(|edge| unsafe { *edge = (next, to) });
        } else {
            // SAFETY: as above.
            edges.incoming.with_mut(|edge| unsafe { *edge = next });
        }
    }

    /// Closes a transaction's list and gives those that wait for nobody else any more, oldest first. `near` is told of
    /// those that still wait, but not for much.
    ///
    /// # Safety
    /// The caller runs the transaction, has ended its body, and calls this once.
    #[inline]
    pub(crate) unsafe fn release(
        &self,
        id: u32,
        mut ready: impl FnMut(u32),
        mut near: impl FnMut(u32),
    ) {
        // Release: what was done to the rows. Acquire: who is in the list.
        let first = self.record(id).successors.swap(RELEASED, Ordering::AcqRel);
        let n = (first & COUNT) as usize;
        let fan = &self.fan(id)[..n];
        for to in fan {
            // The lines come at the same time rather than one after the other.
            prefetch_to_write(self.record(to.load(Ordering::Relaxed)));
        }
        for to in fan {
            self.count_down(to.load(Ordering::Relaxed), &mut ready, &mut near);
        }
        if first >> COUNT_BITS == NOBODY {
            return;
        }
        // SAFETY: as the caller promises.
        let mut link = unsafe { self.reversed(first >> COUNT_BITS) };
        while link != NOBODY {
            // A successor that is counted down may end, and its record be used again: read the link before.
            // SAFETY: the list is closed and ours.
            let (next, to) = unsafe { self.node(link) };
            self.count_down(to, &mut ready, &mut near);
            link = next;
        }
    }

    #[inline]
    fn count_down(&self, id: u32, ready: &mut impl FnMut(u32), near: &mut impl FnMut(u32)) {
        // Acquire and release: who takes the last step has what all before it did.
        match self.record(id).waiting.fetch_sub(1, Ordering::AcqRel) {
            1 => ready(id),
            2 | 3 => near(id),
            _ => {}
        }
    }

    unsafe fn node(&self, node: u32) -> (u32, u32) {
        let (id, slot) = self.of_place((node - 1) >> 1);
        let edges = self.edges(id, slot);
        if (node - 1) & 1 == 1 {
            // SAFETY: as the caller promises.
            edges.outgoing.with(|edge| unsafe { *edge })
        } else {
            // SAFETY: as the caller promises.
            (edges.incoming.with(|next| unsafe { *next }), id)
        }
    }

    /// Turns a closed list around: it was built newest first.
    unsafe fn reversed(&self, first: u32) -> u32 {
        let (mut link, mut done) = (first, NOBODY);
        while link != NOBODY {
            // SAFETY: the list is closed and ours, no node of it has been counted down.
            let (next, to) = unsafe { self.node(link) };
            let (id, slot) = self.of_place((link - 1) >> 1);
            let edges = self.edges(id, slot);
            if (link - 1) & 1 == 1 {
                // SAFETY: as above.
                edges
                    .outgoing
                    .with_mut(|edge| unsafe { *edge = (done, to) });
            } else {
                // SAFETY: as above.
                edges.incoming.with_mut(|next| unsafe { *next = done });
            }
            done = link;
            link = next;
        }
        done
    }
}
