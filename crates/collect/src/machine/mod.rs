//! What this machine is, and what it can do.
//!
//! Each probe is a function that returns plain data with its uncertainty; deciding what the data mean is a second
//! function, and printing it is the CLI's. Whatever a container or an old kernel hides is an `Option`, never a panic.

mod cpus;
mod files;
mod identity;
mod lines;

pub use cpus::{Cpu, allowed_cpus, parse_cpu_list};
pub use files::SystemFiles;
pub use identity::{Processor, machine, processor};
pub use lines::{CacheKind, LineSizes, LineSource, line_sizes};
