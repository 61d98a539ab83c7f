//! Waiting in the graph: whether a transaction's predecessors have ended, and the lists of those who wait.
//!
//! A worker that takes a transaction looks at its predecessors one after the other. Most have ended, and mostly on this
//! core. At the first that has not, it puts the transaction into that one's list, with one compare-exchange, and takes
//! other work; who ends closes its list with one swap, and goes on with the predecessors of those in it. So a
//! transaction is in one list at a time, needs one link, and nobody counts anything.
//!
//! Nothing waits for itself in a circle: a transaction waits for earlier ones only.
//!
//! # Why a look is enough
//! A record's state holds the number of its transaction beside the list, in one word. A predecessor is in flight if the
//! word has its number and an open list, and then the compare-exchange can only succeed on its list. With a closed list,
//! or another number, it has ended: the record is used again only after that. Both words are stored with release by who
//! has done, or acquired, the predecessor's work.
//!
//! In the chain of a row's readers, `before` is read first and the reader's state after it. If the record is another
//! transaction's by then, the reader has ended, and so has every one before it, whose records are used again earlier.

use crate::replay::spawn::Named;
use crate::replay::window::{Left, NOBODY, RELEASED, Window, state};
use crate::sync::Ordering;

impl<T> Window<T> {
    /// Whether all predecessors of a transaction have ended. If not, it is in the list of one that has not, and whoever
    /// runs that one goes on with it: the caller has it no more.
    ///
    /// Only whoever took the transaction from a ring or a list may call this.
    #[inline]
    pub(crate) fn admit(&self, id: u32) -> bool {
        let left = Left::of(self.record(id).left.load(Ordering::Relaxed));
        let mut singles = left.singles;
        while singles > 0 {
            let before = self.predecessor(id, singles - 1).load(Ordering::Relaxed);
            let left = Left { singles, ..left };
            if self.wait_for(id, before, left) {
                return false;
            }
            singles -= 1;
        }
        if left.chains > 0 && !self.admit_to_chains(id, left.chains) {
            return false;
        }
        if left.singles + left.chains > 0 {
            // Whoever takes it from a ring once it is ready need not look again.
            self.record(id).left.store(0, Ordering::Relaxed);
        }
        true
    }

    /// The rest of [`Window::admit`]: chains of readers that were too long to be written down.
    #[cold]
    fn admit_to_chains(&self, id: u32, chains: usize) -> bool {
        let (now, ..) = self.task(id);
        for chains in (1..=chains).rev() {
            let at = self.predecessor_words() - 2 * chains;
            let (reader, place) = (self.predecessor(id, at), self.predecessor(id, at + 1));
            let left = Left { singles: 0, chains };
            loop {
                let before = reader.load(Ordering::Relaxed);
                if self.wait_for(id, before, left) {
                    return false;
                }
                let its = self.id(u64::from(before));
                let slot = place.load(Ordering::Relaxed) as usize;
                // Acquire: with the `before` of a later transaction comes its number.
                let link = Named(self.planned(its, slot).before.load(Ordering::Acquire));
                let now_there = self.record(its).state.load(Ordering::Acquire);
                if (now_there >> 32) as u32 != before {
                    break;
                }
                let Some((next, slot, true)) = link.recent(now, self.records()) else {
                    break;
                };
                reader.store(next as u32, Ordering::Relaxed);
                place.store(slot as u32, Ordering::Relaxed);
            }
        }
        true
    }

    /// Puts a transaction into the list of a predecessor, by the lower half of its number; false if that has ended.
    #[inline]
    fn wait_for(&self, id: u32, before: u32, left: Left) -> bool {
        let list = &self.record(self.id(u64::from(before))).state;
        // Acquire: what was done to the rows, if it has ended.
        let mut now = list.load(Ordering::Acquire);
        loop {
            let (sequence, last) = (now >> 32, now as u32);
            if sequence != u64::from(before) || last == RELEASED {
                return false;
            }
            let record = self.record(id);
            record.left.store(left.word(), Ordering::Relaxed);
            record.next.store(last, Ordering::Relaxed);
            // Release: the two stores above, and all that this thread has acquired of the other predecessors.
            let mine = state(sequence, id + 1);
            match list.compare_exchange_weak(now, mine, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(other) => now = other,
            }
        }
    }

    /// Ends a transaction: closes its list, and gives those in it that wait for nobody else, oldest first. Its record may
    /// be used again from here on.
    ///
    /// The caller runs the transaction, is done with all of its record, and calls this once.
    #[inline]
    pub(crate) fn release(&self, id: u32, sequence: u64, mut ready: impl FnMut(u32)) {
        // Release: what was done to the rows, and that the record is free. Acquire: who is in the list.
        let ended = self
            .record(id)
            .state
            .swap(state(sequence, RELEASED), Ordering::AcqRel);
        let last = ended as u32;
        if last != NOBODY {
            self.release_to(last, &mut ready);
        }
    }

    fn release_to(&self, last: u32, ready: &mut impl FnMut(u32)) {
        let mut waiting = self.reversed(last);
        while waiting != NOBODY {
            let id = waiting - 1;
            // Once it is in another list, or ready, the link is not ours any more.
            waiting = self.record(id).next.load(Ordering::Relaxed);
            if self.admit(id) {
                ready(id);
            }
        }
    }

    /// Turns a closed list around: it was built newest first.
    fn reversed(&self, last: u32) -> u32 {
        let (mut waiting, mut done) = (last, NOBODY);
        while waiting != NOBODY {
            let next = &self.record(waiting - 1).next;
            let before = next.load(Ordering::Relaxed);
            next.store(done, Ordering::Relaxed);
            (done, waiting) = (waiting, before);
        }
        done
    }
}
