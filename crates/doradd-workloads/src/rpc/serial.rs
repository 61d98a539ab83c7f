//! The accepted order executed one by one: what a server's digests must be.

use std::sync::{Mutex, PoisonError};

use doradd::{ReplayError, Sequence, StateDigest, replay_serial};

use crate::log::{Rows, Transaction};
use crate::request::{Outcome, Request, Sink};
use crate::rpc::results::ResultsDigest;
use crate::rpc::wire::Status;
use crate::ycsb::Ycsb;

/// What executing a log one by one comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Executed {
    /// Transactions.
    pub transactions: u64,
    /// The digest of all rows after the last.
    pub state: StateDigest,
    /// The digest of all results.
    pub results: ResultsDigest,
}

/// Puts results into a digest as they come: one by one, so in the order of the log.
struct InOrder(Mutex<ResultsDigest>);

impl Sink<()> for InOrder {
    fn ended(&self, _: &(), _: Sequence, outcome: Outcome) {
        let (status, result) = match outcome {
            Outcome::Done(result) => (Status::Executed, result),
            _ => (Status::Panicked, 0),
        };
        let mut digest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *digest = digest.and(status, result);
    }
}

/// Executes transactions one by one, on a fresh table of so many rows of `WORDS` words.
///
/// # Errors
/// If a transaction names a row that there is not.
///
/// # Panics
/// If memory has no room for the rows.
pub fn execute_serially<const WORDS: usize>(
    transactions: impl Iterator<Item = Transaction>,
    rows: Rows,
) -> Result<Executed, ReplayError> {
    let app: Ycsb<(), InOrder, WORDS> = Ycsb::new(rows, InOrder(Mutex::default()));
    let requests = transactions.map(|transaction| Request {
        tag: (),
        transaction,
    });
    let replayed = replay_serial(requests, &app)?;
    let results = *app.sink().0.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Executed {
        transactions: replayed.executed,
        state: app.state_digest(),
        results,
    })
}
