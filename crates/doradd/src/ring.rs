//! Ready work: a bounded queue with one producer and many consumers, first in first out.
//!
//! One thread pushes behaviour ids and publishes them in batches; its worker takes them from the front, and so do
//! thieves. The producer writes its cursor once per batch, the consumers theirs once per item, each on its own line.
//!
//! # Why an item is taken once, and whole
//! A consumer reads the item before it moves `head` with a compare-exchange; positions are 64 bits and never return, so
//! success means that nobody else took the position. The producer overwrites a cell only after it has read a `head`
//! beyond it (acquire, with the release of the consumer's compare-exchange), so the read item was the one published.

use crate::line::{Line, assert_apart};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Ids that are published at once where nobody is in a hurry.
const BATCH: u64 = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

/// A bounded queue of ids.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Ring {
    taken: Line<Taken>,
    /// The end of what is published.
    tail: Line<AtomicU64>,
    /// The producer's; consumers look at it when they run dry.
    own: Line<Own>,
    cells: Box<[AtomicU32]>,
    mask: u64,
    batches: Batches,
}

/// Who says when ids are published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Batches {
    /// The producer, with [`Ring::publish`].
    Published,
    /// Nobody: the producer calls [`Ring::publish_batch`] after each id, and does not know whether there will be more. A
    /// consumer that runs dry takes what was written.
    Open,
}

assert_apart!(Ring: taken, tail, own);

/// What consumers write.
#[derive(Debug)]
struct Taken {
    /// The next position to take.
    head: AtomicU64,
    /// A `tail` seen earlier: while there is enough before it, nobody looks at the producer's line.
    seen: AtomicU64,
}

#[derive(Debug)]
struct Own {
    /// The end of what is written.
    written: AtomicU64,
    /// A `head` seen earlier.
    head: AtomicU64,
}

/// The ring has no room for the id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

impl Ring {
    /// A ring with room for at least `room` ids.
    pub(crate) fn new(room: usize, batches: Batches) -> Self {
        let n = room.max(1).next_power_of_two();
        Self {
            taken: Line::new(Taken {
                head: AtomicU64::new(0),
                seen: AtomicU64::new(0),
            }),
            tail: Line::new(AtomicU64::new(0)),
            own: Line::new(Own {
                written: AtomicU64::new(0),
                head: AtomicU64::new(0),
            }),
            cells: (0..n).map(|_| AtomicU32::new(0)).collect(),
            mask: n as u64 - 1,
            batches,
        }
    }

    #[inline(always)]
    fn cell(&self, position: u64) -> &AtomicU32 {
        &self.cells[(position & self.mask) as usize]
    }

    /// Writes an id that consumers see once it is published. Only the producer may call this.
    #[inline]
    pub(crate) fn push(&self, id: u32) -> Result<(), Full> {
        let written = self.own.written.load(Ordering::Relaxed);
        if written - self.own.head.load(Ordering::Relaxed) > self.mask {
            let head = self.taken.head.load(Ordering::Acquire);
            self.own.head.store(head, Ordering::Relaxed);
            if written - head > self.mask {
                return Err(Full);
            }
        }
        self.cell(written).store(id, Ordering::Relaxed);
        // Release: a consumer that runs dry looks here.
        self.own.written.store(written + 1, Ordering::Release);
        Ok(())
    }

    /// Shows consumers what was pushed; whether there was anything. Only the producer may call this.
    #[inline]
    pub(crate) fn publish(&self) -> bool {
        let written = self.own.written.load(Ordering::Relaxed);
        if self.tail.load(Ordering::Relaxed) == written {
            return false;
        }
        self.tail.store(written, Ordering::Release);
        true
    }

    /// As [`Ring::publish`], but only when there is a batch. A consumer that runs dry finds what is not shown to it by
    /// [`Ring::is_empty`].
    #[inline]
    pub(crate) fn publish_batch(&self) {
        let written = self.own.written.load(Ordering::Relaxed);
        if written - self.tail.load(Ordering::Relaxed) >= BATCH {
            self.tail.store(written, Ordering::Release);
        }
    }

    /// Whether a position is published.
    #[inline]
    fn has(&self, position: u64) -> bool {
        // Acquire: what the producer, or the consumer that looked for us, has seen.
        let seen = self.taken.seen.load(Ordering::Acquire);
        if position < seen {
            return true;
        }
        let tail = self.tail.load(Ordering::Acquire);
        if tail > seen {
            // A consumer that is slow here may write an older one, which is then only looked up again.
            self.taken.seen.store(tail, Ordering::Release);
        }
        position < tail
    }

    /// Takes the oldest published id.
    #[inline]
    pub(crate) fn pop(&self) -> Option<u32> {
        let mut head = self.taken.head.load(Ordering::Relaxed);
        loop {
            if !self.has(head) {
                return None;
            }
            let id = self.cell(head).load(Ordering::Relaxed);
            match self.taken.head.compare_exchange(
                head,
                head + 1,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(id),
                Err(now) => head = now,
            }
        }
    }

    /// An id `ahead` of the oldest, if it is published: a hint for prefetching, it may be taken already.
    #[inline]
    pub(crate) fn peek(&self, ahead: u64) -> Option<u32> {
        let position = self.taken.head.load(Ordering::Relaxed) + ahead;
        self.has(position)
            .then(|| self.cell(position).load(Ordering::Relaxed))
    }

    /// How many were pushed and not taken. Only the producer may call this.
    #[inline]
    pub(crate) fn written_and_not_taken(&self) -> u64 {
        self.own.written.load(Ordering::Relaxed) - self.taken.head.load(Ordering::Relaxed)
    }

    /// The position of the oldest, and the end of what is published, `most` after it at most.
    #[inline]
    pub(crate) fn published(&self, most: u64) -> (u64, u64) {
        let head = self.taken.head.load(Ordering::Relaxed);
        let end = head + most;
        if self.has(end - 1) {
            return (head, end);
        }
        (head, self.taken.seen.load(Ordering::Acquire).min(end))
    }

    /// The id at a position that was published: a hint for prefetching, it may be another by now.
    #[inline]
    pub(crate) fn at(&self, position: u64) -> u32 {
        self.cell(position).load(Ordering::Relaxed)
    }

    /// Whether there is nothing to take: nothing published or, if batches are open, nothing written. That can be popped then.
    pub(crate) fn is_empty(&self) -> bool {
        let head = self.taken.head.load(Ordering::Relaxed);
        if self.batches == Batches::Published {
            return head >= self.tail.load(Ordering::Acquire);
        }
        let seen = self.taken.seen.load(Ordering::Acquire);
        if head < seen {
            return false;
        }
        let written = self.own.written.load(Ordering::Acquire);
        if written > seen {
            self.taken.seen.store(written, Ordering::Release);
        }
        head >= written
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::{Batches, Full, Ring};

    #[test]
    fn first_in_first_out_once_published() {
        let ring = Ring::new(3, Batches::Published);
        assert!(!ring.publish());
        for id in 0..4 {
            ring.push(id).unwrap();
        }
        assert_eq!(
            (ring.push(9), ring.pop(), ring.peek(0)),
            (Err(Full), None, None)
        );
        assert!(ring.publish());
        assert_eq!((ring.peek(1), ring.peek(4)), (Some(1), None));
        assert_eq!((ring.pop(), ring.pop()), (Some(0), Some(1)));
        ring.push(4).unwrap();
        ring.publish();
        let rest: Vec<u32> = std::iter::from_fn(|| ring.pop()).collect();
        assert_eq!(rest, [2, 3, 4]);
    }

    #[test]
    fn what_is_not_published_is_found_by_who_runs_dry() {
        let ring = Ring::new(16, Batches::Open);
        assert!(ring.is_empty());
        ring.push(0).unwrap();
        ring.publish_batch();
        assert_eq!(ring.pop(), None);
        assert!(!ring.is_empty());
        assert_eq!(
            (ring.pop(), ring.pop(), ring.is_empty()),
            (Some(0), None, true)
        );
        for id in 1..super::BATCH as u32 {
            assert_eq!(ring.pop(), None);
            ring.push(id).unwrap();
            ring.publish_batch();
        }
        assert_eq!(ring.pop(), Some(1));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::{Batches, Ring};
    use crate::sync::UnsafeCell;

    /// Two consumers get each id once, also when cells are used again, and see what was written before the push.
    #[test]
    fn each_id_is_taken_once() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(2, Batches::Published));
            let values = Arc::new([
                UnsafeCell::new(0u32),
                UnsafeCell::new(0),
                UnsafeCell::new(0),
            ]);
            let consumer = {
                let (ring, values) = (Arc::clone(&ring), Arc::clone(&values));
                thread::spawn(move || take(&ring, &values[..]))
            };
            let mut pushed = Vec::new();
            for id in 0..3u32 {
                #[expect(unsafe_code, reason = "what the ring hands over")]
                // SAFETY: the id is not pushed yet, so nobody else looks at its value.
                values[id as usize].with_mut(|value| unsafe { *value = id + 10 });
                if ring.push(id).is_ok() {
                    ring.publish();
                    pushed.push(id);
                }
            }
            let mut taken = take(&ring, &values[..]);
            taken.extend(consumer.join().unwrap());
            taken.extend(take(&ring, &values[..]));
            taken.sort_unstable();
            assert_eq!(taken, pushed);
        });
    }

    /// Ids of an open batch are taken once too, by a consumer that runs dry and one that does not know of it.
    #[test]
    fn an_open_batch_is_taken_once() {
        loom::model(|| {
            let ring = Arc::new(Ring::new(4, Batches::Open));
            let values = Arc::new([UnsafeCell::new(0u32), UnsafeCell::new(0)]);
            let consumer = {
                let (ring, values) = (Arc::clone(&ring), Arc::clone(&values));
                thread::spawn(move || {
                    ring.is_empty();
                    take(&ring, &values[..])
                })
            };
            for id in 0..2u32 {
                #[expect(unsafe_code, reason = "what the ring hands over")]
                // SAFETY: the id is not pushed yet, so nobody else looks at its value.
                values[id as usize].with_mut(|value| unsafe { *value = id + 10 });
                ring.push(id).unwrap();
                ring.publish_batch();
            }
            let mut taken = take(&ring, &values[..]);
            taken.extend(consumer.join().unwrap());
            ring.is_empty();
            taken.extend(take(&ring, &values[..]));
            taken.sort_unstable();
            assert_eq!(taken, [0, 1]);
        });
    }

    fn take(ring: &Ring, values: &[UnsafeCell<u32>]) -> Vec<u32> {
        std::iter::from_fn(|| ring.pop())
            .inspect(|&id| {
                #[expect(unsafe_code, reason = "what the ring hands over")]
                // SAFETY: the id was taken from the ring, and its value is not written after that.
                let value = values[id as usize].with(|value| unsafe { *value });
                assert_eq!(value, id + 10);
            })
            .collect()
    }
}
