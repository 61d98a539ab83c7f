//! A log in a mapped file: checked once as a whole, then read as often as wanted without a copy of it.
//!
//! # Caveats
//! A file that another process cuts while it is mapped ends this process with SIGBUS; logs are not written in place by
//! [`LogWriter`](crate::log::LogWriter), so only other tools can do that.

use std::fs::File;
use std::marker::PhantomData;
use std::path::Path;

use memmap2::{Advice, Mmap};

use crate::log::HEADER_BYTES;
use crate::log::entry::Entry;
use crate::log::error::{LogError, RecordNumber};
use crate::log::record::{RECORD_BYTES, Record, Transaction};

/// A log of transactions over ten rows.
pub type MappedLog = Mapped<Transaction>;

/// A whole log whose records are all right.
#[derive(Debug)]
pub struct Mapped<E> {
    bytes: Mmap,
    entry: PhantomData<fn() -> E>,
}

impl<E: Entry> Mapped<E> {
    /// Maps a log and checks every record.
    ///
    /// # Errors
    /// If the file cannot be mapped, is shorter or longer than its header says, or a record is wrong.
    #[expect(
        unsafe_code,
        reason = "mapping a file is the one unsafe step of reading it in place"
    )]
    pub fn open(path: &Path, bounds: E::Bounds) -> Result<Self, LogError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        if length < HEADER_BYTES as u64 {
            return Err(LogError::NoHeader { bytes: length });
        }
        // SAFETY: the map is read-only, and what is in it is checked each time it is read: a file that changes meanwhile
        // gives other transactions or a fault that ends the process, see the caveats of this module.
        let bytes = unsafe { Mmap::map(&file)? };
        // A hint; without it reading is only slower.
        let _ = bytes.advise(Advice::Sequential);
        check::<E>(&bytes, bounds)?;
        Ok(Self {
            bytes,
            entry: PhantomData,
        })
    }

    /// How many transactions there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.records().len() as u64
    }

    /// Whether there is nothing to execute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records().is_empty()
    }

    /// All transactions, in their order.
    #[must_use]
    pub fn entries(&self) -> Entries<'_, E> {
        Entries {
            records: self.records().iter(),
            entry: PhantomData,
        }
    }

    fn records(&self) -> &[Record] {
        self.bytes[HEADER_BYTES..].as_chunks().0
    }
}

/// The transactions of a log.
#[derive(Clone, Debug)]
pub struct Entries<'a, E> {
    records: std::slice::Iter<'a, Record>,
    entry: PhantomData<fn() -> E>,
}

impl<E: Entry> Iterator for Entries<'_, E> {
    type Item = E;

    #[inline]
    fn next(&mut self) -> Option<E> {
        // Checked when the log was opened; a file that has become wrong since ends here.
        E::decode(self.records.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.records.size_hint()
    }
}

/// Whether these bytes are a log that stays within the bounds.
fn check<E: Entry>(bytes: &[u8], bounds: E::Bounds) -> Result<(), LogError> {
    let length = bytes.len() as u64;
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(LogError::NoHeader { bytes: length });
    };
    let count = u32::from_le_bytes(*header);
    let (records, cut_off) = rest.as_chunks::<RECORD_BYTES>();
    let there = records.len() as u64;
    if there < u64::from(count) {
        let number = RecordNumber(there);
        return Err(LogError::Short {
            number,
            count,
            bytes: length,
        });
    }
    if there > u64::from(count) || !cut_off.is_empty() {
        return Err(LogError::trailing(count));
    }
    for (number, record) in (0..).map(RecordNumber).zip(records) {
        E::checked(record, bounds).map_err(|fault| LogError::Record { number, fault })?;
    }
    Ok(())
}
