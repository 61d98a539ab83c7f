//! One number for the results of all transactions, in their order.
//!
//! Results come back in any order; they are put into the digest in the order of the log, so that the digest of the first
//! `n` is the same in every run, and after every one of them can be compared with a serial execution.

use std::collections::VecDeque;
use std::fmt;

use doradd::Random;

use crate::rpc::wire::Status;

/// A fingerprint of the results of a number of transactions. Different results have the same one by chance only (about one
/// in 2^64); it is no protection against forgery.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ResultsDigest(u64);

impl ResultsDigest {
    /// With the result of the next transaction.
    #[must_use]
    pub fn and(self, status: Status, result: u64) -> Self {
        // The finaliser of this generator is a bijection that spreads every bit.
        let mixed = Random::new(result ^ u64::from(status as u8).rotate_right(8)).bits();
        Self(Random::new(self.0.rotate_left(23) ^ mixed).bits())
    }

    /// As it stands in a reply.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ResultsDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The results so far.
#[derive(Debug, Default)]
pub(crate) struct Results {
    /// Transactions in the digest: all before this number.
    counted: u64,
    digest: ResultsDigest,
    /// Results that came before an earlier one, by their distance from `counted`. No longer than what can be in flight.
    early: VecDeque<Option<(Status, u64)>>,
}

impl Results {
    /// The result of a transaction, which comes once.
    pub(crate) fn insert(&mut self, sequence: u64, status: Status, result: u64) {
        let Some(distance) = sequence.checked_sub(self.counted) else {
            debug_assert!(false, "the result of {sequence} came twice");
            return;
        };
        let distance = distance as usize;
        if distance >= self.early.len() {
            self.early.resize(distance + 1, None);
        }
        self.early[distance] = Some((status, result));
    }

    /// Puts into the digest what can be, up to a number of transactions.
    pub(crate) fn advance(&mut self, to: u64) {
        while self.counted < to
            && let Some(Some((status, result))) = self.early.front().copied()
        {
            self.early.pop_front();
            self.digest = self.digest.and(status, result);
            self.counted += 1;
        }
    }

    /// How many transactions are in the digest, and the digest.
    pub(crate) fn so_far(&self) -> (u64, ResultsDigest) {
        (self.counted, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_arrival_does_not_show_and_the_order_of_the_log_does() {
        let results: Vec<u64> = (0..50).map(|i| i * i % 7).collect();
        let of = |results: &[u64]| {
            let each = |digest: ResultsDigest, result: &u64| digest.and(Status::Executed, *result);
            results.iter().fold(ResultsDigest::default(), each)
        };
        let mut early = Results::default();
        for chunk in (0..50u64).collect::<Vec<_>>().chunks(7) {
            for sequence in chunk.iter().rev() {
                early.insert(*sequence, Status::Executed, results[*sequence as usize]);
            }
            early.advance(20);
        }
        assert_eq!(early.so_far(), (20, of(&results[..20])));
        early.advance(u64::MAX);
        assert_eq!(early.so_far(), (50, of(&results)));
        assert_ne!(of(&[1, 2]), of(&[2, 1]));
        let one = ResultsDigest::default();
        assert_ne!(one.and(Status::Panicked, 0), one.and(Status::NotRun, 0));
    }
}
