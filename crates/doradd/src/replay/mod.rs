//! Replaying a log: one total order in, executed in parallel, with the result of executing it one by one.
//!
//! `app` is what a user writes, `table` where rows live, `access` how a transaction names its rows, `window` the bounded
//! ring of transactions in flight, `spawn` and `wait` the dependency graph, `execute` what workers do, `progress` the
//! two words that all of them meet at, `pace` how far workers look ahead, `dispatch` who feeds them, `serial` the oracle.

pub(crate) mod access;
pub(crate) mod app;
pub(crate) mod digest;
pub(crate) mod dispatch;
pub(crate) mod execute;
pub(crate) mod outcome;
pub(crate) mod pace;
pub(crate) mod progress;
pub(crate) mod run;
pub(crate) mod serial;
pub(crate) mod spawn;
pub(crate) mod stages;
mod streak;
pub(crate) mod table;
pub(crate) mod wait;
pub(crate) mod window;

#[cfg(all(test, loom))]
mod loom_tests;
