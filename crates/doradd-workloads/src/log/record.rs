//! A transaction, and the 128 bytes that it is in a log and on the wire.
//!
//! ```text
//! offset  bytes  little-endian
//!      0     40  u32 × 10: the keys, which are numbers of rows
//!     40      2  u16: bit i is set if row i of these is written, else it is read
//!     42     80  zero; readers ignore it
//!    122      6  zero; readers ignore it
//! ```

use std::fmt;

use crate::log::error::RecordFault;

/// Rows that a transaction names.
pub const KEYS: usize = 10;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 128;

const WRITES: usize = 4 * KEYS;
const ALL_KEYS: u16 = (1 << KEYS) - 1;

const _: () = assert!(WRITES + 2 + 8 * KEYS + 6 == RECORD_BYTES);

/// How many rows a table has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rows(pub u64);

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A record as it is in a log, not checked.
pub type Record = [u8; RECORD_BYTES];

/// Ten rows, and which of them are written. A row may be named more than once.
///
/// ```
/// use doradd_workloads::log::Transaction;
///
/// let transaction = Transaction::new([7; 10], 0b11)?;
/// assert!(transaction.is_write(1) && !transaction.is_write(2));
/// assert_eq!(Transaction::decode(&transaction.encode()), Ok(transaction));
/// # Ok::<(), doradd_workloads::log::RecordFault>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Transaction {
    keys: [u32; KEYS],
    writes: u16,
}

impl Transaction {
    /// A transaction of these rows that writes those whose bit is set in `writes`, bit 0 being that of the first.
    ///
    /// # Errors
    /// If a bit is set beyond the tenth.
    pub fn new(keys: [u32; KEYS], writes: u16) -> Result<Self, RecordFault> {
        if writes & !ALL_KEYS != 0 {
            return Err(RecordFault::WriteMask(writes));
        }
        Ok(Self { keys, writes })
    }

    /// A transaction that writes no rows but its own, whatever other bits are set.
    pub(crate) fn of(keys: [u32; KEYS], writes: u16) -> Self {
        Self {
            keys,
            writes: writes & ALL_KEYS,
        }
    }

    /// The rows, in the order in which the transaction works on them.
    #[must_use]
    pub fn keys(&self) -> &[u32; KEYS] {
        &self.keys
    }

    /// Whether the `i`-th row is written.
    #[must_use]
    pub fn is_write(&self, i: usize) -> bool {
        i < KEYS && self.writes >> i & 1 == 1
    }

    /// A bit for each row that is written.
    #[must_use]
    pub fn writes(&self) -> u16 {
        self.writes
    }

    /// Reads a record.
    ///
    /// # Errors
    /// If it says that a row beyond the tenth is written.
    #[inline]
    pub fn decode(record: &Record) -> Result<Self, RecordFault> {
        let (words, _) = record.as_chunks::<4>();
        let mut keys = [0; KEYS];
        for (key, word) in keys.iter_mut().zip(words) {
            *key = u32::from_le_bytes(*word);
        }
        Self::new(
            keys,
            u16::from_le_bytes([record[WRITES], record[WRITES + 1]]),
        )
    }

    /// The record of this transaction.
    #[must_use]
    pub fn encode(&self) -> Record {
        let mut record = [0; RECORD_BYTES];
        let (words, _) = record.as_chunks_mut::<4>();
        for (word, key) in words.iter_mut().zip(self.keys) {
            *word = key.to_le_bytes();
        }
        record[WRITES..WRITES + 2].copy_from_slice(&self.writes.to_le_bytes());
        record
    }

    /// Whether a table of so many rows has all of these.
    ///
    /// # Errors
    /// With the first key that is out of range.
    #[inline]
    pub fn check(&self, rows: Rows) -> Result<(), RecordFault> {
        match self.keys.iter().find(|key| u64::from(**key) >= rows.0) {
            Some(&key) => Err(RecordFault::Key { key, rows }),
            None => Ok(()),
        }
    }
}
