//! The dependency graph, built on line: which transactions in flight a new one has to wait for.
//!
//! Each row has a tail, a word that only the spawning thread touches: who named the row last, and whether to read. A new
//! writer waits for the last writer, or for all readers since; a new reader for the last writer. The spawning thread
//! writes these *predecessors* into the new transaction's record and touches nobody else's: whether one has ended, and the
//! waiting for it, is found out by the worker that takes the transaction (see [`crate::replay::wait`]), which most often
//! has run the predecessor itself.
//!
//! Readers of a row form a chain through their records (`before`), so that the next writer finds them all. A chain ends
//! where a reader is too old to be in flight: everything before it has ended as well, because records are used again in
//! the order of the log.

use crate::replay::table::Tail;
use crate::replay::window::{Left, Window};
use crate::sync::Ordering;

/// Who named a row last: 0 for nobody, else the number of the transaction plus one, the place of the row in it, and
/// whether it reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Named(pub(crate) u64);

impl Named {
    fn new(sequence: u64, slot: usize, reads: bool) -> Self {
        Self((sequence + 1) << 8 | (slot as u64) << 1 | u64::from(reads))
    }

    /// The sequence number, slot, and whether it reads, of a transaction that can be in flight when `now` is spawned.
    #[inline(always)]
    pub(crate) fn recent(self, now: u64, records: u64) -> Option<(u64, usize, bool)> {
        let sequence = (self.0 >> 8).checked_sub(1)?;
        (now - sequence < records).then_some((
            sequence,
            (self.0 >> 1 & 0x7F) as usize,
            self.0 & 1 == 1,
        ))
    }
}

/// The spawning thread's part of the graph.
#[derive(Debug)]
pub(crate) struct Planner {
    /// For each record, one more than the last transaction that named it as a predecessor.
    named_by: Box<[u64]>,
}

/// The predecessors of one transaction while they are collected.
struct Collected {
    id: u32,
    now: u64,
    left: Left,
    /// Words that the transaction's further rows may need.
    reserved: usize,
}

#[expect(unsafe_code, reason = "cells that belong to the spawning thread")]
impl Planner {
    pub(crate) fn new<T>(window: &Window<T>) -> Self {
        Self {
            named_by: (0..window.records()).map(|_| 0).collect(),
        }
    }

    /// Joins a transaction to the graph; whether it has no predecessor that can be in flight.
    ///
    /// # Safety
    /// The caller is the only spawning thread, this is the next number, and the transaction's rows are written down.
    #[inline]
    pub(crate) unsafe fn plan<T>(&mut self, window: &Window<T>, now: u64) -> bool {
        let id = window.id(now);
        let (_, n, writes) = window.task(id);
        let mut found = Collected {
            id,
            now,
            left: Left {
                singles: 0,
                chains: 0,
            },
            reserved: 2 * n,
        };
        for slot in 0..n {
            let tail = window.planned(id, slot).tail.with(|tail| {
                // SAFETY: written by an earlier stage.
                unsafe { *tail }
            });
            // SAFETY: tables outlive the replay that sealed them.
            let tail: &Tail = unsafe { &*tail };
            // SAFETY: only this thread touches tails.
            let last = Named(unsafe { *tail.get() });
            found.reserved -= 2;
            let becomes = if writes >> slot & 1 == 0 {
                self.join_reader(window, &mut found, slot, last)
            } else {
                self.join_writer(window, &mut found, slot, last)
            };
            // SAFETY: only this thread touches tails.
            unsafe { *tail.get() = becomes.0 };
        }
        // Relaxed: it goes with the record.
        let left = found.left.word();
        window.record(id).left.store(left, Ordering::Relaxed);
        left == 0
    }

    #[inline]
    fn join_writer<T>(
        &mut self,
        window: &Window<T>,
        found: &mut Collected,
        slot: usize,
        last: Named,
    ) -> Named {
        let becomes = Named::new(found.now, slot, false);
        match last.recent(found.now, window.records()) {
            None => becomes,
            Some((before, _, false)) if before == found.now => last,
            Some((before, _, false)) => {
                self.wait_for(window, found, before);
                becomes
            }
            Some(_) => {
                self.wait_for_readers(window, found, last);
                becomes
            }
        }
    }

    /// Waits for all readers since the last writer, which ends before them.
    ///
    /// A transaction that read the row before, and now writes it, waits for the writer already.
    fn wait_for_readers<T>(&mut self, window: &Window<T>, found: &mut Collected, last: Named) {
        let mut link = last;
        while let Some((reader, slot, true)) = link.recent(found.now, window.records()) {
            if reader != found.now {
                if found.room(window) < 3 {
                    // One word for this reader, two for the rest of the chain: the worker follows it from here.
                    found.add_chain(window, reader, slot);
                    return;
                }
                self.wait_for(window, found, reader);
            }
            let before = &window.planned(window.id(reader), slot).before;
            link = Named(before.load(Ordering::Relaxed));
        }
    }

    #[inline]
    fn join_reader<T>(
        &mut self,
        window: &Window<T>,
        found: &mut Collected,
        slot: usize,
        last: Named,
    ) -> Named {
        let writer = match last.recent(found.now, window.records()) {
            Some((before, _, _)) if before == found.now => return last,
            None => Named(0),
            Some((_, _, false)) => last,
            Some((reader, its, true)) => {
                let writer = &window.planned(window.id(reader), its).writer;
                Named(writer.load(Ordering::Relaxed))
            }
        };
        if let Some((before, _, _)) = writer.recent(found.now, window.records()) {
            self.wait_for(window, found, before);
        }
        let planned = window.planned(found.id, slot);
        // Release: a worker that follows a chain to here, and finds this, finds this transaction's number too.
        planned.before.store(last.0, Ordering::Release);
        planned.writer.store(writer.0, Ordering::Relaxed);
        Named::new(found.now, slot, true)
    }

    /// Names a predecessor, once.
    #[inline]
    fn wait_for<T>(&mut self, window: &Window<T>, found: &mut Collected, before: u64) {
        let named_by = &mut self.named_by[window.id(before) as usize];
        if *named_by == found.now + 1 {
            return;
        }
        *named_by = found.now + 1;
        let place = window.predecessor(found.id, found.left.singles);
        place.store(before as u32, Ordering::Relaxed);
        found.left.singles += 1;
    }
}

impl Collected {
    /// Words that are free and not kept for rows to come.
    fn room<T>(&self, window: &Window<T>) -> usize {
        let used = self.left.singles + 2 * self.left.chains;
        window.predecessor_words() - used - self.reserved
    }

    #[cold]
    fn add_chain<T>(&mut self, window: &Window<T>, reader: u64, slot: usize) {
        self.left.chains += 1;
        let at = window.predecessor_words() - 2 * self.left.chains;
        let word = |word| window.predecessor(self.id, word);
        word(at).store(reader as u32, Ordering::Relaxed);
        word(at + 1).store(slot as u32, Ordering::Relaxed);
    }
}
