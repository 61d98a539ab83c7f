//! Where transactions come from: a file that can be read again, or the standard input.

use std::iter::{Cycle, Take};

use doradd::{Log, Next};

use crate::log::{Entries, Entry, Mapped, Streamed};

/// Where transactions come from.
#[derive(Debug)]
pub enum Source<E> {
    /// A file, which was checked as a whole.
    Mapped(Mapped<E>),
    /// The standard input, which is checked as it comes.
    Streamed(Streamed<E>),
}

impl<E: Entry> Source<E> {
    /// At most so many transactions; a file begins again after its last.
    pub(crate) fn feed(&mut self, transactions: u64) -> Feed<'_, E> {
        let n = usize::try_from(transactions).unwrap_or(usize::MAX);
        match self {
            Self::Mapped(log) => Feed::Mapped(log.entries().cycle().take(n)),
            Self::Streamed(log) => Feed::Streamed(log),
        }
    }

    /// How many transactions there are, if that is known.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::Mapped(log) => Some(log.len()),
            Self::Streamed(_) => None,
        }
    }
}

/// The transactions of a source. One type for both kinds, so that the runtime is compiled once for each table.
#[derive(Debug)]
pub(crate) enum Feed<'s, E> {
    Mapped(Take<Cycle<Entries<'s, E>>>),
    Streamed(&'s mut Streamed<E>),
}

impl<E: Entry> Log for Feed<'_, E> {
    type Txn = E;

    #[inline]
    fn next(&mut self) -> Next<E> {
        match self {
            Self::Mapped(entries) => Log::next(entries),
            Self::Streamed(log) => Log::next(log),
        }
    }
}
