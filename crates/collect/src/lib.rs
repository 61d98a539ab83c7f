//! A live process becomes a recording.

mod raw;

pub use raw::{RawEvent, RawSample};
