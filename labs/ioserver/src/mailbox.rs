//! How threads hand things to each other: a list under a lock, and a way to wake who waits for it.

use std::io;
use std::sync::{Mutex, PoisonError};

use mio::{Registry, Token, Waker};

/// The event of a mailbox, in the poll of the thread that reads it.
pub(crate) const MAIL: Token = Token(usize::MAX);

/// Things for one thread, from any.
#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    list: Mutex<Vec<T>>,
    waker: Waker,
}

impl<T> Mailbox<T> {
    /// One whose reader waits in the poll of `registry`.
    pub(crate) fn new(registry: &Registry) -> io::Result<Self> {
        Ok(Self {
            list: Mutex::new(Vec::new()),
            waker: Waker::new(registry, MAIL)?,
        })
    }

    /// Hands over all of `things`. Who found the list empty wakes the reader: it takes the whole list each time.
    pub(crate) fn post(&self, things: &mut Vec<T>) -> io::Result<()> {
        if things.is_empty() {
            return Ok(());
        }
        let was_empty = {
            let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
            let was_empty = list.is_empty();
            list.append(things);
            was_empty
        };
        if was_empty { self.waker.wake() } else { Ok(()) }
    }

    /// Takes everything. `into` must be empty; its memory becomes the list's.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        debug_assert!(into.is_empty());
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *list, into);
    }
}
