//! What can be wrong with a recording as a whole.
//!
//! Damage inside one is not an error: see [`Damage`](crate::Damage).

use std::io;

/// Why a recording cannot be written or read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file has no bytes.
    #[error("the file is empty: nothing was recorded; record again with `hitm run -o FILE -- CMD`")]
    Empty,
    /// The file is one of `perf record`'s.
    #[error(
        "this is a perf.data file, not a hitm recording; record with `hitm run -o FILE -- CMD`"
    )]
    PerfData,
    /// The file is something else.
    #[error("not a hitm recording; record one with `hitm run -o FILE -- CMD`")]
    NotARecording,
    /// The file ends within its header.
    #[error(
        "the recording ends after {bytes} bytes, inside its header; record again with `hitm run -o FILE -- CMD`"
    )]
    HeaderCut {
        /// Bytes in the file.
        bytes: usize,
    },
    /// Reading failed.
    #[error("the recording cannot be read")]
    Read(#[source] io::Error),
    /// Writing failed.
    #[error("the recording cannot be written")]
    Write(#[source] io::Error),
    /// An event is longer than a block may be.
    #[error("an event of {bytes} bytes is too long for a recording")]
    EventTooLong {
        /// Its encoded length.
        bytes: usize,
    },
    /// An event has no encoding.
    #[error("an event cannot be encoded")]
    Encode(#[source] postcard::Error),
}
