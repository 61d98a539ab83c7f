//! The experiment as its users see it: simulated machines in, verdicts out.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod changes;
mod comparable;
mod endings;
mod evidence;
mod scale;
mod shake;
mod simulated;
mod statistics;
mod suites;
