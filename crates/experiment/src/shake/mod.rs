//! How much of a result is layout luck? One program in many layouts, run in turn.
//!
//! - [`Change`]: what a variant does to the layout; [`changes`] plans them from a seed.
//! - [`measure`]: rounds in which the base, the base once more, and every variant run once, in an order of their own.
//! - [`judge()`]: what the rounds say, all variants considered.
//! - [`Shaken`]: all of it, for a report.

mod change;
mod judge;
mod result;
mod rounds;

pub use change::{Change, Kinds, KindsError, changes};
pub use judge::{ArmEstimate, Judgement, Sides, Verdict, judge, rounds_needed};
pub use result::{Explained, Explanation, Moved, Program, SectionMoved, Shaken, Variant};
pub use rounds::{Arm, ArmEnded, Ended, Plan, Rounds, Runner, Watcher, measure};
