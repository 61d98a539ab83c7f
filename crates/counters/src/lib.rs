//! Counters of many threads that never share a cache line, and cheap ways to read them while the threads run.
//!
//! Threads that count in one atomic, or in neighbours of one array, fight over its cache line: every increment waits for
//! the line. Padding each counter to a line of its own repairs that, and costs a line per counter and thread. Here each
//! *thread* has a block on lines of its own, with all its counters packed in it: an increment is a plain load, addition and
//! store, and 1,144 counters take 1,144 words per thread.
//!
//! - [`PerThread`]: blocks of a struct of yours with `#[derive(Counters)]`, found by thread, summed up by whoever reads.
//! - `PerCpu`: the same by processor, for programs with thousands of threads.
//! - [`Isolated`]: one value alone on its cache lines.
//! - [`assert_isolated!`], [`assert_apart!`], [`assert_same_line!`]: layout claims that the compiler checks, with
//!   [`check_isolated`], [`check_apart`] and [`are_on_one_line`] for real addresses.
//!
//! ```
//! use hitm_counters::{Counter, Counters, PerThread};
//!
//! #[derive(Counters)]
//! struct Stats { hits: Counter, misses: Counter }
//!
//! let stats = PerThread::<Stats>::new();
//! stats.local().hits.inc();
//! assert_eq!(stats.snapshot().values(), StatsValues { hits: 1, misses: 0 });
//! ```
//!
//! # Features
//! `std` and `derive` are on by default. Without `std` the crate needs `alloc` and 64-bit atomics; blocks are then taken
//! with [`PerThread::claim`]. `serde`: snapshots as serde values. `metrics`: a recorder for the facade of that name.
//! `line-128`: isolates by 128 bytes also where 64 are the default.

#![no_std]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", loom, test))]
extern crate std;

#[cfg(not(target_has_atomic = "64"))]
compile_error!("hitm-counters needs atomics of 64 bits, which this target has not");

// The derive's code names this crate as its users do.
extern crate self as hitm_counters;

mod assert;
mod cells;
mod exposition;
mod histogram;
mod isolated;
pub mod line;
#[cfg(all(feature = "std", not(loom)))]
mod local;
#[cfg(all(feature = "std", not(loom)))]
mod per_cpu;
mod per_thread;
mod prometheus;
#[cfg(all(feature = "metrics", not(loom)))]
mod recorder;
mod registry;
mod schema;
#[cfg(feature = "serde")]
mod serialize;
mod slab;
mod snapshot;
mod sync;

pub use assert::{SharedLine, are_on_one_line, check_apart, check_isolated};
pub use cells::{Counter, Gauge, Latest, Max, Min, SignedCounter};
pub use histogram::{Histogram, HistogramValues, LatencyHistogram, buckets};
pub use isolated::Isolated;
#[cfg(all(feature = "std", not(loom)))]
pub use local::Local;
#[cfg(all(feature = "std", not(loom)))]
pub use per_cpu::{CpuMode, PerCpu};
pub use per_thread::{Claim, PerThread};
#[cfg(all(feature = "metrics", not(loom)))]
pub use recorder::Recorder;
pub use schema::{Counters, Describe, Field, Kind, Schema};
#[cfg(feature = "serde")]
pub use serialize::Record;
pub use snapshot::{Snapshot, ThreadValues, Threads, Value};

/// Makes a struct of cells one thread's block; see [`PerThread`].
///
/// All fields have to be cells of this crate, arrays of such, or other structs with this derive. It also makes a struct
/// of the values, with the same fields as numbers and the same visibility, named after the struct: `StatsValues`.
///
/// - `#[counters(values = Name)]` on the struct names that struct.
/// - `#[counters(derive(serde::Serialize))]` on the struct lets the struct of values derive more than `Clone`, `Debug` and
///   `PartialEq`.
/// - `#[counters(label = "priority")]` on an array: the name of the label that tells its elements apart in exports,
///   instead of `index`.
/// - `#[counters(name = "read_bytes")]` on a field: its name in exports, instead of the field's.
///
/// ```
/// use hitm_counters::{Counter, Counters, Max, PerThread};
///
/// #[derive(Counters)]
/// struct Net { packets: Counter, largest: Max }
///
/// #[derive(Counters)]
/// struct Server {
///     net: Net,
///     #[counters(label = "command")]
///     calls: [Counter; 3],
/// }
///
/// let stats = PerThread::<Server>::new();
/// let own = stats.local();
/// own.net.largest.see(1500);
/// own.calls[2].inc();
/// let values = stats.snapshot().values();
/// assert_eq!((values.net.largest, values.calls), (Some(1500), [0, 0, 1]));
/// ```
///
/// ```compile_fail
/// # use hitm_counters::{Counter, Counters};
/// #[derive(Counters)]
/// struct Stats { hits: Counter, name: String } // error: this is no counter: fields are cells of hitm-counters …
/// ```
#[cfg(feature = "derive")]
pub use hitm_counters_derive::Counters;

#[doc(hidden)]
pub mod __private {
    pub use crate::assert::{apart, same_line, size_of_field};

    /// Of a word in a block.
    pub const WORD_BYTES: usize = size_of::<crate::sync::AtomicU64>();
}
