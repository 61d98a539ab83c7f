//! A live process becomes a recording.

pub mod machine;
mod raw;

pub use raw::{RawEvent, RawSample};
