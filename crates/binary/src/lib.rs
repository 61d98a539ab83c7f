//! The bytes of an ELF file become what the analysis asks about them.
//!
//! Bytes in, values out: nothing here opens a file, reads a clock or the environment, and damaged input gives errors
//! or less information, never a panic.
//!
//! - [`decode`]: instructions and registers → memory accesses.
//! - [`image`]: sections, symbols, function bounds, build-id.
//! - [`debug`]: DWARF → source frames, variables, types, field paths.
//! - [`program`]: all code of a file → accesses of fixed places, calls, where threads begin.
//! - [`relocatable`]: object files before they are linked: another order of variables, space before them.

#![forbid(unsafe_code)]

pub mod debug;
pub mod decode;
pub mod image;
pub mod program;
pub mod relocatable;

mod error;

pub use error::BinaryError;
