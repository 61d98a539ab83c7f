//! The experiment as its users see it: simulated machines in, verdicts out.

mod comparable;
mod endings;
mod simulated;
mod statistics;
mod suites;
