//! A live process becomes a recording.

mod error;
pub mod machine;
mod raw;
#[expect(dead_code, reason = "the samplers land next")]
mod sampler;

pub use error::CollectError;
pub use raw::{RawEvent, RawSample};
