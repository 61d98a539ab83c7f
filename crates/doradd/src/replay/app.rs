//! What a user writes to have a log replayed.

use crate::panics::OnPanic;
use crate::replay::access::{Access, Acquired};

/// A state machine whose log is replayed: which rows a transaction needs, and what it does to them.
///
/// The result is the same in every run, for any number of workers, if `access` and `execute` depend on nothing but the
/// transaction, the rows and the [`Ctx`]: no clock, no thread, no other state.
///
/// ```
/// use doradd::{Access, Acquired, App, Ctx, Runtime, Table, replay_serial};
///
/// struct Bank {
///     accounts: Table<u64>,
/// }
///
/// struct Transfer {
///     from: usize,
///     to: usize,
///     amount: u64,
/// }
///
/// impl App for Bank {
///     type Txn = Transfer;
///
///     fn access<'a>(&'a self, txn: &Transfer, access: &mut Access<'a>) {
///         access.write(&self.accounts, txn.from);
///         access.write(&self.accounts, txn.to);
///     }
///
///     fn execute(&self, txn: &Transfer, mut rows: Acquired<'_>, _: &Ctx) {
///         let from = rows.write(&self.accounts, 0);
///         let amount = txn.amount.min(*from);
///         *from -= amount;
///         *rows.write(&self.accounts, 1) += amount;
///     }
/// }
///
/// let bank = || Bank { accounts: Table::new(8, |_| 100) };
/// let log = || (0..1000).map(|i| Transfer { from: i % 8, to: i * 5 % 7, amount: i as u64 % 60 });
///
/// let (parallel, serial) = (bank(), bank());
/// let mut runtime = Runtime::builder().workers(2).build()?;
/// let replayed = runtime.replay(log(), &parallel)?;
/// replay_serial(log(), &serial)?;
/// assert_eq!(replayed.executed, 1000);
/// assert_eq!(parallel.accounts.state_digest(), serial.accounts.state_digest());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait App: Sync {
    /// One request of the log. A reference into the log is fine, and costs least.
    type Txn: Send;

    /// Rows at most that one transaction names, up to 64.
    const MAX_OBJECTS: usize = 16;

    /// Lines of 64 bytes of each row that are fetched before a transaction runs.
    const PREFETCH_LINES: usize = 1;

    /// Names the rows a transaction needs, in the order in which `execute` will ask for them. A row may be named more
    /// than once. Runs on a thread of the dispatcher, before earlier transactions have ended: rows cannot be looked into.
    fn access<'a>(&'a self, txn: &Self::Txn, access: &mut Access<'a>);

    /// Does the transaction's work on its rows. Runs on a worker.
    fn execute(&self, txn: &Self::Txn, rows: Acquired<'_>, ctx: &Ctx);

    /// What the generators of [`Ctx::random`] start from.
    fn seed(&self) -> u64 {
        0
    }

    /// What becomes of the rows of a transaction that panics.
    fn on_panic(&self) -> OnPanic {
        OnPanic::Continue
    }
}

/// What a transaction may know besides its rows: the same in every run.
#[derive(Clone, Copy, Debug)]
pub struct Ctx {
    pub(crate) sequence: Sequence,
    pub(crate) seed: u64,
}

/// A transaction's place in the log, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Sequence(pub u64);

impl Ctx {
    /// The transaction's place in the log.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// A generator that depends on the seed of the [`App`] and the place in the log only. Each call gives the same one.
    ///
    /// ```
    /// # use doradd::{Access, Acquired, App, Ctx, Table, replay_serial};
    /// struct Dice(Table<u64>);
    ///
    /// impl App for Dice {
    ///     type Txn = ();
    ///     fn access<'a>(&'a self, _: &(), access: &mut Access<'a>) {
    ///         access.write(&self.0, 0);
    ///     }
    ///     fn execute(&self, _: &(), mut rows: Acquired<'_>, ctx: &Ctx) {
    ///         *rows.write(&self.0, 0) += 1 + ctx.random().below(6);
    ///     }
    /// }
    ///
    /// let (one, other) = (Dice(Table::new(1, |_| 0)), Dice(Table::new(1, |_| 0)));
    /// replay_serial([(); 100].into_iter(), &one)?;
    /// replay_serial([(); 100].into_iter(), &other)?;
    /// assert_eq!(one.0.state_digest(), other.0.state_digest());
    /// # Ok::<(), doradd::ReplayError>(())
    /// ```
    #[must_use]
    pub fn random(&self) -> Random {
        Random(mix(self.seed ^ mix(self.sequence.0)))
    }
}

/// A small generator of random numbers (SplitMix64): good for workloads, not for secrets.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number from 0 to `n - 1`; 0 if `n` is 0. The bias is below `n / 2^64`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

/// The finaliser of SplitMix64: a bijection that spreads every bit.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// What a [`Log`] has right now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<T> {
    /// The next transaction.
    Txn(T),
    /// Nothing yet: what is in hand is executed meanwhile, then the log is asked again.
    NotYet,
    /// Nothing, and never again.
    End,
}

/// A source of transactions. Every iterator is one; write your own for a source that may have to wait.
///
/// An iterator that blocks holds back the last few transactions it gave, because the dispatcher looks ahead. A log that
/// says [`Next::NotYet`] instead does not.
pub trait Log {
    /// What it gives.
    type Txn;

    /// The next transaction, if there is one right now.
    fn next(&mut self) -> Next<Self::Txn>;
}

impl<I: Iterator> Log for I {
    type Txn = I::Item;

    #[inline]
    fn next(&mut self) -> Next<I::Item> {
        match Iterator::next(self) {
            Some(txn) => Next::Txn(txn),
            None => Next::End,
        }
    }
}
