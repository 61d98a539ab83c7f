//! What users of the workloads can rely on, through the public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod arrivals;
mod commands;
mod generate;
mod json;
mod log;
mod memory;
mod order;
mod streamed;
mod tpcc;
