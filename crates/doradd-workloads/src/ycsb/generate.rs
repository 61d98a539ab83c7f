//! Transactions to order: how many keys are hot, how the others spread, how many are written.
//!
//! The same profile gives the same transactions, to the bit, on every machine. For each transaction ten keys are drawn and
//! then ten decisions to write.

use doradd::Random;
use thiserror::Error;

use crate::log::{KEYS, Rows, Transaction};
use crate::ycsb::zipf::{Theta, Zipf, unit};

/// Rows of the hot set, as in the artifact of the DORADD paper: the first ones of the table.
pub const HOT_ROWS: u64 = 77;

/// How many of the ten keys are of the hot set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Contention {
    /// None.
    #[default]
    No,
    /// Three.
    Moderate,
    /// Seven.
    High,
}

impl Contention {
    /// How many of the ten keys are of the hot set.
    #[must_use]
    pub fn hot_keys(self) -> usize {
        match self {
            Self::No => 0,
            Self::Moderate => 3,
            Self::High => 7,
        }
    }
}

/// What part of the keys is written, from 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct WriteRatio(f64);

/// It is no part of a whole.
#[derive(Error, Clone, Copy, PartialEq, Debug)]
#[error("the write ratio is {0}: it is the part of the keys that are written, from 0 to 1")]
pub struct WriteRatioError(f64);

impl WriteRatio {
    /// Half of the keys, as in the DORADD paper.
    pub const HALF: Self = Self(0.5);

    /// A ratio.
    ///
    /// # Errors
    /// If it is not from 0 to 1.
    pub fn new(ratio: f64) -> Result<Self, WriteRatioError> {
        if (0.0..=1.0).contains(&ratio) {
            Ok(Self(ratio))
        } else {
            Err(WriteRatioError(ratio))
        }
    }
}

/// What transactions are like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Profile {
    /// Of the table. Keys are below that.
    pub rows: Rows,
    /// What random numbers start from.
    pub seed: u64,
    /// How many keys are of the hot set; a table smaller than that is hot as a whole.
    pub contention: Contention,
    /// How the other keys spread: uniformly, or by Zipf's law, the first rows being the most frequent.
    pub zipf: Option<Theta>,
    /// How many keys are written.
    pub write_ratio: WriteRatio,
}

/// The profile asks for something that cannot be.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
#[error("{0} rows: keys have 32 bits, so a table has from 1 to {max} rows", max = MAX_ROWS)]
pub struct RowsError(Rows);

/// The most rows that keys can name.
pub const MAX_ROWS: u64 = 1 << 32;

/// An endless source of transactions.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    rows: u64,
    hot_keys: usize,
    zipf: Option<Zipf>,
    write_ratio: f64,
}

impl Generator {
    /// Transactions of a profile.
    ///
    /// # Errors
    /// If there are no rows, or more than keys can name.
    pub fn new(profile: &Profile) -> Result<Self, RowsError> {
        let Rows(rows) = profile.rows;
        if !(1..=MAX_ROWS).contains(&rows) {
            return Err(RowsError(profile.rows));
        }
        Ok(Self {
            random: Random::new(profile.seed),
            rows,
            hot_keys: profile.contention.hot_keys(),
            zipf: profile.zipf.map(|theta| Zipf::new(rows, theta)),
            write_ratio: profile.write_ratio.0,
        })
    }

    /// The next one.
    pub fn draw(&mut self) -> Transaction {
        let mut keys = [0; KEYS];
        for (i, key) in keys.iter_mut().enumerate() {
            // Below 2^32, as `new` has seen to.
            *key = self.key(i < self.hot_keys) as u32;
        }
        let write = |i: usize| u16::from(unit(&mut self.random) < self.write_ratio) << i;
        Transaction::of(keys, (0..KEYS).map(write).sum())
    }

    fn key(&mut self, hot: bool) -> u64 {
        match &self.zipf {
            _ if hot => self.random.below(self.rows.min(HOT_ROWS)),
            Some(zipf) => zipf.draw(&mut self.random),
            None => self.random.below(self.rows),
        }
    }
}

impl Iterator for Generator {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        Some(self.draw())
    }
}
