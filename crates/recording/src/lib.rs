//! The `.hitm` recording: a stream of checked blocks of events, its writer and its reader.
//!
//! A recording is written while the program runs, so whatever happens to the recorder, the blocks it has written stay
//! readable: each has a marker to find it again and a checksum, and each event in it has a length, so that a reader
//! passes over what it does not know. docs/recording.md describes the bytes for readers in other languages.
//!
//! Nothing here opens a file: the writer takes a [`Write`](std::io::Write), the reader a [`Read`](std::io::Read), and
//! [`read_slice`] is a function of bytes alone.

#![forbid(unsafe_code)]

mod decode;
mod error;
mod format;
mod reader;
mod writer;

pub use error::Error;
pub use format::{BLOCK_BYTES, MAX_PAYLOAD_BYTES, VERSION};
pub use reader::{Damage, Reader, read_slice};
pub use writer::Writer;
