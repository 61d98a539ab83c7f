//! What can be wrong with a log, with the number of the record.

use std::fmt;
use std::io;

use thiserror::Error;

use crate::log::HEADER_BYTES;
use crate::log::record::{KEYS, RECORD_BYTES, Rows};

/// A record's place in its log, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RecordNumber(pub u64);

impl fmt::Display for RecordNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What is wrong with a record.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RecordFault {
    /// The table has no such row.
    #[error("key {key} is beyond the last of {rows} rows: run with `--rows {}` or more, if the log is what it should be", u64::from(*.key) + 1)]
    Key {
        /// The first key that is out of range.
        key: u32,
        /// Of the table.
        rows: Rows,
    },
    /// It writes rows that it does not name.
    #[error(
        "the write mask is {0:#06x}, which has bits beyond the last of {KEYS} keys: the log may be of another format"
    )]
    WriteMask(u16),
    /// It is no transaction of TPC-C.
    #[error(
        "it begins with {0:#010x}, which is neither a New-Order nor a Payment: is it a log of `tpcc gen`?"
    )]
    Kind(u32),
    /// There is no such warehouse.
    #[error("warehouse {number} is beyond the last of {warehouses}: run with `--warehouses {}` or more, if the log is what it should be", u32::from(*.number) + 1)]
    Warehouse {
        /// The one that is out of range.
        number: u16,
        /// How many there are.
        warehouses: u16,
    },
    /// A figure of a transaction of TPC-C is not possible.
    #[error("its {what} is {value}, and must be from {low} to {high}")]
    OutOfRange {
        /// Which figure.
        what: &'static str,
        /// What it is.
        value: u64,
        /// The least that is possible.
        low: u64,
        /// The most.
        high: u64,
    },
}

/// Why a log cannot be executed.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum LogError {
    /// The system does not let us read it.
    #[error("cannot read the log")]
    Read(#[from] io::Error),
    /// There is not even a header.
    #[error(
        "the log has {bytes} bytes and no room for the number of its records, which takes 4: is it a log of `ycsb gen`?"
    )]
    NoHeader {
        /// Bytes there are.
        bytes: u64,
    },
    /// It ends before all records that its header tells of.
    #[error(
        "record {number} is cut off: the log should have {count} records of {RECORD_BYTES} bytes, and ends after {bytes} bytes; \
         copy it again, or generate it again"
    )]
    Short {
        /// The first record that is not there in full.
        number: RecordNumber,
        /// What the header says.
        count: u32,
        /// Bytes of the whole log.
        bytes: u64,
    },
    /// It goes on after the last record.
    #[error(
        "the log goes on after its {count} records, at byte {at}: its header is wrong, or it is no log of 128-byte records"
    )]
    Trailing {
        /// What the header says.
        count: u32,
        /// Where it should end.
        at: u64,
    },
    /// A record is wrong.
    #[error("record {number}: {fault}")]
    Record {
        /// Which one.
        number: RecordNumber,
        /// What is wrong with it.
        fault: RecordFault,
    },
}

impl LogError {
    pub(crate) fn trailing(count: u32) -> Self {
        let at = HEADER_BYTES as u64 + u64::from(count) * RECORD_BYTES as u64;
        Self::Trailing { count, at }
    }
}
