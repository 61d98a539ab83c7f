//! Story 3 as a program: a server of the Redis protocol whose IO threads count, on shared lines or on their own.
//!
//! The parts, in the way of a command:
//!
//! - `main_thread` accepts a connection and gives it to the IO thread with the fewest.
//! - `io_thread` owns it from then on: it reads, parses ([`resp`]), hands whole commands to the main thread as a
//!   `turn`, and writes the replies that come back.
//! - `execute` runs commands, on the main thread alone, which owns the `keyspace`.
//! - `stats` is what this lab is about: what the threads count, in one of two layouts.
//!
//! A client's turn is with its IO thread or with the main thread, never with both: that is why there is no lock but those
//! of the mailboxes.

#![forbid(unsafe_code)]

mod client;
mod config;
mod execute;
mod glob;
mod io_thread;
mod keyspace;
mod mailbox;
mod main_thread;
mod output;
pub mod resp;
mod serve;
mod stats;
mod turn;

pub use config::{Config, Limits, NetBytesLayout, StatsLayout};
pub use serve::serve;
