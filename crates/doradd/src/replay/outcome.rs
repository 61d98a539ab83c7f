//! What a replay did, and why it could not.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::replay::app::Sequence;

/// What a replay did; every figure is a count.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Transactions that have ended, well or not: all of the log.
    pub executed: u64,
    /// Transactions that panicked. The same in every run.
    pub panicked: u64,
    /// Transactions that were not run because of a poisoned row. The same in every run.
    pub refused: u64,
    /// Transactions that the dispatcher ran itself, because as many were in flight as allowed, or because it had time and all
    /// workers were busy.
    pub helped: u64,
    /// Transactions that a worker took from another's share.
    pub stolen: u64,
    /// Transactions that ran on the worker that had freed them, directly after. With one worker next to none: what has to wait
    /// mostly waits in its ring.
    pub handed: u64,
    /// Times a worker fell asleep for want of work.
    pub parked: u64,
    /// How many transactions ahead the first worker fetched rows in the end, see
    /// [`Builder::lookahead`](crate::Builder::lookahead); 0 in a serial replay, which does not choose.
    pub lookahead: u64,
    /// The first panics of the log with their messages. The same in every run.
    pub panics: BTreeMap<Sequence, String>,
}

/// Why a log could not be replayed to its end.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// A transaction named rows that it cannot have. All before it were executed, it and all after it were not.
    #[error("transaction {}: {fault}", sequence.0)]
    Access {
        /// Its place in the log.
        sequence: Sequence,
        /// What is wrong.
        fault: Fault,
    },
    /// More rows per transaction than a replay has room for.
    #[error("App::MAX_OBJECTS is {0}: at most 64 rows per transaction are possible")]
    MaxObjects(usize),
    /// The system gave no thread, or not on the processor asked for. Nothing was executed.
    #[error("cannot start a thread for the replay: {0}")]
    Thread(String),
}

/// What is wrong with the rows that a transaction named.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// The table has no such row.
    #[error("row {row} of a table of {rows} rows")]
    NoRow {
        /// The row that was named.
        row: usize,
        /// How many there are.
        rows: usize,
    },
    /// It named too many rows.
    #[error("more than {max} rows: raise App::MAX_OBJECTS")]
    TooMany {
        /// How many are possible.
        max: usize,
    },
    /// The table is used by another replay at the moment.
    #[error("its table is in use by another replay: wait for that one to end")]
    InUse,
}
