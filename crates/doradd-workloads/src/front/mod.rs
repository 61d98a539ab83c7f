//! What the binaries share: options, output, exit codes. The rest of the crate prints nothing and reads no arguments.

mod descriptors;
mod exit;
pub mod generate;
mod json;
mod options;
mod progress;
mod session;
mod source;
mod text;

pub use descriptors::raise_descriptor_limit;
pub use exit::{Exit, end};
pub use json::{JSON_VERSION, Table, json_schema};
pub use options::{DispatchChoice, RunOptions};
pub use session::{Workload, interrupts, run};
pub use source::Source;
pub use text::number;
