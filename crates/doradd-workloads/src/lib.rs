//! Workloads for [`doradd`], the deterministic parallel runtime: what the binaries `ycsb` and `tpcc` are made of.
//!
//! - [`log`]: files and streams of transactions over ten rows each, in the format that docs/doradd-log.md describes.
//! - [`ycsb`]: the state machine that executes them, with bodies whose order shows in the result, and generators of logs.
//! - [`request`]: what goes through the runtime, a transaction with a tag for whoever waits for its end.

pub mod log;
pub mod request;
pub mod ycsb;
