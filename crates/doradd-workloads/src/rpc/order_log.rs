//! The accepted order as a log file, written while the server runs.
//!
//! A transaction is in the file before it is executed, so the file never lacks one whose reply was sent. The number of
//! records in the header is written after the records of each batch. A server that is killed leaves a file whose header
//! tells of whole records that were all accepted; what follows them was never executed. Nothing is forced to the disk: the file
//! survives the server, not the machine.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::log::{HEADER_BYTES, RECORD_BYTES, Transaction};

/// Why the accepted order cannot be written.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum OrderLogError {
    /// The file cannot be made.
    #[error("cannot make the log {}: name a file that does not exist, in a directory that you may write to", path.display())]
    Create {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The disk is full, or something like that.
    #[error("cannot write the log {}: it ends after {records} transactions, and nothing later was executed; make room and start again with another `--log`", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Transactions that are in it.
        records: u32,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// The file.
#[derive(Debug)]
pub(crate) struct OrderLog {
    path: PathBuf,
    file: File,
    records: u32,
    batch: Vec<u8>,
}

impl OrderLog {
    /// Makes the file, which must not exist: what one server accepted is not overwritten by the next.
    pub(crate) fn create(path: &Path) -> Result<Self, OrderLogError> {
        let made = File::create_new(path).and_then(|file| {
            file.write_all_at(&0u32.to_le_bytes(), 0)?;
            Ok(file)
        });
        match made {
            Ok(file) => Ok(Self {
                path: path.to_owned(),
                file,
                records: 0,
                batch: Vec::new(),
            }),
            Err(source) => Err(OrderLogError::Create {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Adds a transaction to the batch.
    pub(crate) fn push(&mut self, transaction: &Transaction) {
        self.batch.extend_from_slice(&transaction.encode());
    }

    /// Writes the batch. If that fails, none of it is in the file.
    pub(crate) fn commit(&mut self) -> Result<(), OrderLogError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let batch = (self.batch.len() / RECORD_BYTES) as u32;
        let written = match self.records.checked_add(batch) {
            Some(records) => self.write(records),
            None => Err(io::Error::other("a log has at most 4,294,967,295 records")),
        };
        self.batch.clear();
        written.map_err(|source| {
            // What the header does not tell of is no part of the log; cutting it off is for those who do not know.
            let _ = self.file.set_len(end(self.records));
            OrderLogError::Write {
                path: self.path.clone(),
                records: self.records,
                source,
            }
        })
    }

    fn write(&mut self, records: u32) -> io::Result<()> {
        self.file.write_all_at(&self.batch, end(self.records))?;
        self.file.write_all_at(&records.to_le_bytes(), 0)?;
        self.records = records;
        Ok(())
    }
}

/// Where a log of so many records ends.
fn end(records: u32) -> u64 {
    HEADER_BYTES as u64 + u64::from(records) * RECORD_BYTES as u64
}
