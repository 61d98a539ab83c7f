//! Workloads for [`doradd`], the deterministic parallel runtime: what the binaries `ycsb` and `tpcc` are made of.
//!
//! - [`log`]: files and streams of transactions, in the format that docs/doradd-log.md describes.
//! - [`ycsb`]: transactions over ten rows, with bodies whose order shows in the result, and generators of them.
//! - [`tpcc`]: New-Order and Payment of TPC-C, over up to 33 rows.
//! - [`request`]: what goes through the runtime, a transaction with a tag for whoever waits for its end.
//! - [`run`]: a log executed by a schedule of arrivals, measured, and compared with the serial oracle.
//! - [`memory`]: whether a table fits.
//! - [`front`]: what the binaries share: options, output, exit codes. It alone prints.
//! - [`rpc`]: the same over TCP, with replies.

pub mod front;
pub mod log;
pub mod memory;
pub mod request;
pub mod rpc;
pub mod run;
pub mod tpcc;
pub mod ycsb;
