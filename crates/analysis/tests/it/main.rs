//! Verdicts through the public API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attribution;
mod costs;
mod layout;
mod progress;
mod verdicts;
