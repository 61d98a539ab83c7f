//! Verdicts through the public API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod attribution;
mod check_rules;
mod check_types;
mod costs;
mod functions;
mod layout;
mod policy;
mod progress;
mod verdicts;
