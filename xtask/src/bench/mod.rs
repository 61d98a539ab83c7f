//! Measures hitm itself: always both sides in one interleaved run, always a ratio or a difference of medians.
//!
//! # Caveats
//! Ratios of programs with threads mean something only where the threads ran side by side; each line says in how many
//! of the runs they did. Absolute times are those of this machine.

mod asked;
mod check;
mod counters;
mod doradd;
mod layout;
mod overhead;
mod report;
mod resident;
mod rivals;
mod startup;

pub(crate) use check::check;
pub(crate) use counters::counters;
pub(crate) use doradd::{doradd, memory as doradd_memory};
pub(crate) use layout::layout;
pub(crate) use overhead::overhead;
pub(crate) use report::report;
pub(crate) use startup::startup;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hitm_testkit::{Layout, Outcome, fixture, run_limited};

const TIME_LIMIT: Duration = Duration::from_secs(300);

/// The per-thread collector in one of its layouts.
fn collector(layout: Layout) -> Result<PathBuf> {
    let built = fixture("per_thread_array").build(layout, None)?;
    Ok(built.program)
}

/// Runs a command that must succeed.
fn succeed(command: &mut Command) -> Result<Outcome> {
    let outcome = run_limited(command, TIME_LIMIT).with_context(|| format!("{command:?}"))?;
    if outcome.timed_out || !outcome.status.success() {
        bail!("{command:?}: {}: {}", outcome.status, outcome.stderr);
    }
    Ok(outcome)
}

/// Says whether a figure is within what was set for it.
fn against(figure: f64, budget: f64) -> &'static str {
    if figure <= budget { "within" } else { "OVER" }
}
