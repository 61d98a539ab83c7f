//! The way of accepted requests to the dispatcher: a bounded queue that is a [`Log`].
//!
//! The dispatcher that finds nothing is told [`Next::NotYet`] first, so that it hands out what it has looked ahead at, and
//! put to sleep only when it has asked in vain for a while. An idle server uses no processor time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use doradd::{Log, Next};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::rpc::doorbell::Doorbell;

/// How often the dispatcher asks in vain before it sleeps: first it spins, then it gives way, some microseconds in all.
const PATIENCE: u32 = 640;

/// The side of the thread that accepts.
#[derive(Debug)]
pub(crate) struct Feed<T> {
    queue: Producer<Cell<T>>,
    shared: Arc<Shared>,
}

/// The dispatcher's side.
pub(crate) struct Source<T, F: FnMut()> {
    queue: Consumer<Cell<T>>,
    shared: Arc<Shared>,
    in_vain: u32,
    gone: F,
}

/// One request on a line of its own, so that one side never writes where the other reads.
#[derive(Debug)]
#[repr(align(64))]
struct Cell<T>(T);

#[derive(Debug, Default)]
struct Shared {
    bell: Doorbell,
    /// The feed has ended; written once.
    ended: AtomicBool,
    /// The source has ended; written once.
    gone: AtomicBool,
}

/// A queue for so many requests; `gone` is called when the source ends.
pub(crate) fn feed<T, F: FnMut()>(room: usize, gone: F) -> (Feed<T>, Source<T, F>) {
    let (producer, consumer) = RingBuffer::new(room);
    let shared = Arc::new(Shared::default());
    let feed = Feed {
        queue: producer,
        shared: Arc::clone(&shared),
    };
    (
        feed,
        Source {
            queue: consumer,
            shared,
            in_vain: 0,
            gone,
        },
    )
}

/// There is no room, or nobody takes requests any more; the request comes back.
#[derive(Debug)]
pub(crate) struct Refused<T>(pub(crate) T);

impl<T> Feed<T> {
    /// Adds a request; [`Feed::ring`] tells the dispatcher.
    pub(crate) fn push(&mut self, request: T) -> Result<(), Refused<T>> {
        if self.is_gone() {
            return Err(Refused(request));
        }
        self.queue
            .push(Cell(request))
            .map_err(|rtrb::PushError::Full(Cell(request))| Refused(request))
    }

    /// Wakes the dispatcher if it sleeps.
    pub(crate) fn ring(&self) {
        self.shared.bell.ring();
    }

    /// Whether the dispatcher has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Acquire)
    }
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Release);
        self.shared.bell.ring();
    }
}

impl<T, F: FnMut()> Source<T, F> {
    #[cold]
    fn sleep(&mut self) {
        self.shared
            .bell
            .wait(|| !self.queue.is_empty() || self.shared.ended.load(Ordering::Acquire));
    }
}

impl<T, F: FnMut()> Log for Source<T, F> {
    type Txn = T;

    #[inline]
    fn next(&mut self) -> Next<T> {
        if let Ok(Cell(request)) = self.queue.pop() {
            self.in_vain = 0;
            return Next::Txn(request);
        }
        if self.shared.ended.load(Ordering::Acquire) {
            // Whatever was pushed before the end is there now.
            return match self.queue.pop() {
                Ok(Cell(request)) => Next::Txn(request),
                Err(_) => Next::End,
            };
        }
        self.in_vain += 1;
        if self.in_vain > PATIENCE {
            self.sleep();
            self.in_vain = 0;
        }
        Next::NotYet
    }
}

impl<T, F: FnMut()> Drop for Source<T, F> {
    fn drop(&mut self) {
        self.shared.gone.store(true, Ordering::Release);
        // What is pushed after this is dropped with the queue, by the feed.
        while self.queue.pop().is_ok() {}
        (self.gone)();
    }
}

impl<T, F: FnMut()> std::fmt::Debug for Source<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}
