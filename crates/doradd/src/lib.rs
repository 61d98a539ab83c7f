//! A deterministic parallel runtime.
//!
//! Requests name the objects they need; each runs as soon as it holds all of them, in parallel with others, and requests
//! that share objects run in the order in which they were submitted. There are no locks to take, no aborts, no batches,
//! and no order in which to take objects: submitting acquires all of them at once, so nothing can deadlock.
//!
//! ```
//! use doradd::{Runtime, read};
//!
//! let runtime = Runtime::builder().workers(2).build()?;
//! let (rate, account) = (runtime.cown(3), runtime.cown(100));
//! runtime.when((read(&rate), &account), |(rate, account)| *account += *account * *rate / 100);
//! runtime.when(&rate, |rate| *rate = 50);
//! runtime.when(&account, |account| assert_eq!(*account, 103));
//! assert_eq!(runtime.shutdown().panicked, 0);
//! # Ok::<(), doradd::BuildError>(())
//! ```
//!
//! How it works inside is told in [`implementation`].

#![deny(missing_docs)]

mod barrier;
mod bell;
mod counts;
mod crew;
pub mod implementation;
mod line;
mod pages;
mod panics;
mod pin;
mod replay;
mod ring;
mod runtime;
mod stats;
mod sync;
mod when;

pub use counts::{Activity, Watch};
pub use panics::OnPanic;
pub use replay::access::{Access, Acquired};
pub use replay::app::{App, Ctx, Log, Next, Random, Sequence};
pub use replay::digest::StateDigest;
pub use replay::outcome::{Fault, ReplayError, Replayed};
pub use replay::run::Dispatch;
pub use replay::serial::replay_serial;
pub use replay::table::Table;
pub use runtime::{BuildError, Builder, Runtime};
pub use stats::Stats;
pub use when::cown::Cown;
pub use when::objects::{Object, Objects, Read, read};
