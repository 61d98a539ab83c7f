//! What `hitm run` adds to a command that does nothing.

use std::process::Command;

use anyhow::Result;

use super::{against, succeed};
use crate::pairs::{Run, interleave, median};
use crate::tools::build_hitm;

const SECONDS: f64 = 0.15;

/// Prints the median difference between `hitm run -- true` and `true`.
pub(crate) fn startup(runs: u32) -> Result<()> {
    let hitm = build_hitm()?;
    let dir = tempfile::tempdir()?;
    let timed = |command: &mut Command| {
        let cost = succeed(command.current_dir(dir.path()))?
            .elapsed
            .as_secs_f64();
        // One thread has nobody to run beside.
        Ok(Run {
            cost,
            side_by_side: true,
        })
    };
    let pairs = interleave(
        runs,
        || timed(&mut Command::new("true")),
        || timed(Command::new(&hitm).args(["run", "--", "true"])),
    )?;
    let added = median(&pairs.differences);
    println!(
        "start-up: {added:.3} s over the bare command ({}: at most {SECONDS}), {:.3}..{:.3} in {} pairs",
        against(added, SECONDS),
        pairs.differences.first().copied().unwrap_or(f64::NAN),
        pairs.differences.last().copied().unwrap_or(f64::NAN),
        pairs.n,
    );
    Ok(())
}
