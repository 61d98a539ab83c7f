//! What this machine is, and what it can do.
//!
//! Each probe is a function that returns plain data with its uncertainty; deciding what the data mean is a second
//! function, and printing it is the CLI's. Whatever a container or an old kernel hides is an `Option`, never a panic.

mod contention;
mod corun;
mod cpus;
mod events;
mod files;
mod identity;
mod latency;
mod lines;
mod quota;
mod refusals;
mod stats;
#[cfg(test)]
mod tests;
mod verdicts;
mod window;

// What it is.
pub use cpus::{Cpu, allowed_cpus, parse_cpu_list, shared_cores, two_cpus};
pub use files::SystemFiles;
pub use identity::{Processor, machine, processor};
pub use lines::{CacheKind, LineSizes, LineSource, line_sizes};
pub use quota::{cpu_quota, parse_cpu_max};

// What it grants.
pub use events::{Abilities, Capabilities, MemorySampler, Settings, abilities, settings};
pub use refusals::{Answer, Refusal, refusal};

// What it costs.
pub use contention::{Operation, Placement, RatioBudget, cost_ratio};
pub use corun::{CoRun, CoRunVerdict, co_run};
pub use latency::{LatencyBudget, LatencyMatrix, PairLatency, latency_matrix};
pub use stats::{Ratio, Spread};
pub use verdicts::{CostVerdict, MARGIN, PairVerdict, cost_verdict, pair_verdict};
pub use window::{CannotTell, pin};

// What proving takes from the probes.
pub(crate) use corun::StatTicks;
pub(crate) use window::{Until, Window as SideBySide, side_by_side};
