//! The state machine: what a transaction does to its ten rows.
//!
//! The bodies of the system this follows only ever write zeros, so no run of it can show a wrong order. Here each body
//! folds what it reads into what it writes, with its place in the log, by an operation that does not commute: two
//! transactions that run in the wrong order leave another state behind, which the digest shows.

use std::marker::PhantomData;

use doradd::{Access, Acquired, App, Ctx, OnPanic, Sequence, StateDigest, Table};

use crate::log::{KEYS, Rows, Transaction};
use crate::request::{Outcome, Request, Sink};
use crate::run::Machine;
use crate::ycsb::row::{Row, fold};

/// A table of rows of `WORDS` words, and who is told of the ends of transactions.
///
/// ```
/// use doradd::{Runtime, replay_serial};
/// use doradd_workloads::log::{Rows, Transaction};
/// use doradd_workloads::request::Request;
/// use doradd_workloads::ycsb::Ycsb;
///
/// let log = || (0..100).map(|i| Request { tag: (), transaction: Transaction::new([i % 7; 10], 1).unwrap() });
/// let (parallel, serial): (Ycsb<(), ()>, Ycsb<(), ()>) = (Ycsb::new(Rows(8), ()), Ycsb::new(Rows(8), ()));
/// Runtime::builder().workers(2).build()?.replay(log(), &parallel)?;
/// replay_serial(log(), &serial)?;
/// assert_eq!(parallel.state_digest(), serial.state_digest());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Ycsb<T, S, const WORDS: usize = 128> {
    rows: Table<Row<WORDS>>,
    sink: S,
    panics: Option<Panics>,
    tag: PhantomData<fn(T)>,
}

/// Which bodies panic, for tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Panics {
    /// Every transaction whose place in the log is a multiple of this, but the first; it panics half-way through its rows.
    pub every: u64,
    /// What becomes of its rows.
    pub then: OnPanic,
}

impl<T, S, const WORDS: usize> Ycsb<T, S, WORDS> {
    /// A table as it is in the beginning.
    ///
    /// # Panics
    /// If memory cannot have that many rows; [`crate::memory`] tells beforehand.
    pub fn new(rows: Rows, sink: S) -> Self {
        let rows = usize::try_from(rows.0).unwrap_or(usize::MAX);
        Self {
            rows: Table::new(rows, Row::new),
            sink,
            panics: None,
            tag: PhantomData,
        }
    }

    /// The same with bodies that panic.
    #[doc(hidden)]
    #[must_use]
    pub fn panicking(mut self, panics: Panics) -> Self {
        self.panics = Some(panics);
        self
    }

    /// Memory that a table takes, in bytes: its rows, and a word each for the runtime.
    #[must_use]
    pub fn bytes(rows: Rows) -> u64 {
        let each = size_of::<Row<WORDS>>() as u64 + 8;
        rows.0.saturating_mul(each)
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> Rows {
        Rows(self.rows.len() as u64)
    }

    /// Who is told of ends.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// A fingerprint of all rows, to compare runs by.
    ///
    /// # Panics
    /// While a replay uses the table.
    #[must_use]
    pub fn state_digest(&self) -> StateDigest {
        self.rows.state_digest()
    }

    /// Makes all rows as they were in the beginning.
    pub fn reset(&mut self) {
        for (number, row) in self.rows.rows_mut().enumerate() {
            *row = Row::new(number);
        }
    }
}

impl<T, S, const WORDS: usize> App for Ycsb<T, S, WORDS>
where
    T: Send,
    S: Sink<T>,
{
    type Txn = Request<T, Transaction>;

    const MAX_OBJECTS: usize = KEYS;
    const PREFETCH_LINES: usize = 2;

    #[inline]
    fn access<'a>(&'a self, request: &Self::Txn, access: &mut Access<'a>) {
        let transaction = &request.transaction;
        for (i, key) in transaction.keys().iter().enumerate() {
            if transaction.is_write(i) {
                access.write(&self.rows, *key as usize);
            } else {
                access.read(&self.rows, *key as usize);
            }
        }
    }

    #[inline]
    fn execute(&self, request: &Self::Txn, mut rows: Acquired<'_>, ctx: &Ctx) {
        let sequence = ctx.sequence();
        let panics = self.panics.is_some_and(|panics| panics.hits(sequence));
        let half = rows.len() / 2;
        let mut sum = sequence.0;
        for i in 0..rows.len() {
            if panics && i == half {
                self.sink.ended(&request.tag, sequence, Outcome::Panics);
                panic!("transaction {} panics, as it was told to", sequence.0);
            }
            if rows.is_write(i) {
                sum = fold(sum, rows.write(&self.rows, i).write(sum));
            } else {
                sum = fold(sum, rows.read(&self.rows, i).sum());
            }
        }
        self.sink.ended(&request.tag, sequence, Outcome::Done(sum));
    }

    fn on_panic(&self) -> OnPanic {
        self.panics.map_or(OnPanic::Continue, |panics| panics.then)
    }
}

impl<T, S, const WORDS: usize> Machine for Ycsb<T, S, WORDS>
where
    T: Send,
    S: Sink<T>,
{
    fn digest(&self) -> StateDigest {
        self.state_digest()
    }

    fn restart(&mut self) {
        self.reset();
    }
}

impl Panics {
    fn hits(self, sequence: Sequence) -> bool {
        sequence.0 > 0 && sequence.0.is_multiple_of(self.every)
    }
}
