//! Findings become a table for people, JSON for programs, and a yes or no for a gate.
//!
//! Everything is rendered into a [`Write`](std::io::Write): nothing here prints, reads the environment or decides
//! anything about sharing. docs/report.md explains each value.

#![forbid(unsafe_code)]

mod causes;
mod error;
mod gate;
mod json;
mod measured;
mod page;
mod refusals;
mod table;
mod words;

pub use error::Error;
pub use gate::{FailOn, LeastShare, cannot_judge, gate};
pub use json::{JSON_VERSION, json, json_schema};
pub use table::{TableOptions, table};
