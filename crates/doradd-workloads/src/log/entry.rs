//! What a record of a log can be: the file's frame is the same for all.

use crate::log::error::RecordFault;
use crate::log::record::{Record, Rows, Transaction};

/// A kind of transaction that a log has records of.
pub trait Entry: Copy + Send + Sync + 'static {
    /// What it may name.
    type Bounds: Copy + Send + 'static;

    /// Reads a record that has been checked, or gives nothing if it has become wrong since.
    fn decode(record: &Record) -> Option<Self>;

    /// Reads a record, and whether it stays within the bounds.
    ///
    /// # Errors
    /// With the first thing that is wrong.
    fn checked(record: &Record, bounds: Self::Bounds) -> Result<Self, RecordFault>;
}

impl Entry for Transaction {
    type Bounds = Rows;

    #[inline]
    fn decode(record: &Record) -> Option<Self> {
        Self::decode(record).ok()
    }

    fn checked(record: &Record, rows: Rows) -> Result<Self, RecordFault> {
        let transaction = Self::decode(record)?;
        transaction.check(rows)?;
        Ok(transaction)
    }
}
