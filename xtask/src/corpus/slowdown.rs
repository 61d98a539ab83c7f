//! What the faulty layout of a program costs: the same work in both layouts, in interleaved pairs of short runs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use hitm_testkit::run_limited;

use super::truth::{Case, Program};
use super::{TIME_LIMIT, last_line, scale};
use crate::pairs::{Pairs, Run, children_cpu, interleave_until};

/// How long the faulty layout is to run each time.
const RUN: Duration = Duration::from_secs(1);
/// Pairs whose threads ran side by side.
const PAIRS: usize = 5;
/// Pairs at most, where the machine is busy.
const MOST_PAIRS: u32 = 15;
/// Two threads that use less than this many processors did not run side by side all the time.
const SIDE_BY_SIDE_CPUS: f64 = 1.85;

/// Runs both layouts in turn; the ratios are the time of the faulty one over that of the repaired one.
pub(super) fn measure(work: &Path, program: &Program) -> Result<Pairs> {
    let [packed, fixed] = program.cases();
    let iterations = scale::iterations(work, &packed, RUN)?;
    interleave_until(
        PAIRS,
        MOST_PAIRS,
        || timed(work, &fixed, iterations),
        || timed(work, &packed, iterations),
    )
}

/// The time that a program itself says it took: where one thread is the victim, it is the victim's.
fn timed(work: &Path, case: &Case<'_>, iterations: u64) -> Result<Run> {
    let line = case.command_line();
    let mut command = Command::new(&line[0]);
    command.current_dir(work).args(&line[1..]).args([
        "--iters",
        &iterations.to_string(),
        "--addrs",
    ]);
    let before = children_cpu()?;
    let outcome = run_limited(&mut command, TIME_LIMIT)?;
    if outcome.timed_out || !outcome.status.success() {
        bail!("alone: {}: {}", outcome.status, last_line(&outcome.stderr));
    }
    let cpus = (children_cpu()? - before) / outcome.elapsed.as_secs_f64();
    let Some(cost) = scale::value(&outcome.stdout, "elapsed_s=") else {
        bail!("no elapsed_s= in: {}", last_line(&outcome.stdout));
    };
    Ok(Run {
        cost,
        side_by_side: cpus >= SIDE_BY_SIDE_CPUS,
    })
}
