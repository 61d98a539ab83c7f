//! Logs of transactions over ten rows: files that are mapped, streams that are read while they are executed.
//!
//! The format is described in docs/doradd-log.md: how many records there are as a little-endian `u32`, then a
//! [`Record`] of 128 bytes for each.

mod entry;
mod error;
mod mapped;
mod record;
mod streamed;
mod writer;

pub use entry::Entry;
pub use error::{LogError, RecordFault, RecordNumber};
pub use mapped::{Entries, Mapped, MappedLog};
pub use record::{KEYS, RECORD_BYTES, Record, Rows, Transaction};
pub use streamed::Streamed;
pub use writer::{LogWriter, WriteError};

/// Bytes before the first record: how many records there are.
pub const HEADER_BYTES: usize = 4;
