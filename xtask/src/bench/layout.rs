//! The time to read all types of a large binary, beside pahole, and to find one type.
//!
//! The binary is hitm itself with full debug information.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use hitm_testkit::{have_tool, skipped};

use super::asked::{Row, print};
use super::resident;
use crate::pairs::{Run, interleave, median};
use crate::tools::{build_hitm, install};

/// At most this much of pahole's time.
const OF_PAHOLE: f64 = 0.2;
const SECONDS_TYPE: f64 = 1.0;
/// No command gets more time than this.
const BOUND: Duration = Duration::from_secs(120);

/// Prints the median ratio to pahole and the time to find one type.
pub(crate) fn layout(runs: u32) -> Result<()> {
    install(&[("pahole", "dwarves")]);
    let hitm = build_hitm()?;
    let size = std::fs::metadata(&hitm)?.len() as f64 / 1e6;
    println!("the binary: {} ({size:.0} MB)", hitm.display());
    let mut rows = Vec::from_iter(pahole_row(&hitm, runs)?);
    rows.push(type_row(&hitm, runs)?);
    print(&rows);
    Ok(())
}

/// All types, in interleaved runs with pahole; `None` where that is missing.
pub(super) fn pahole_row(hitm: &Path, runs: u32) -> Result<Option<Row>> {
    if !have_tool("pahole") {
        skipped("no pahole: apt-get install dwarves");
        return Ok(None);
    }
    let timed = |command: &mut Command| {
        let cost = resident::run(command, BOUND)?.good(command)?.seconds;
        // What is compared is the whole command, however many threads it has.
        Ok(Run {
            cost,
            side_by_side: true,
        })
    };
    let all_types = || {
        let mut command = Command::new(hitm);
        command.arg("layout").arg(hitm).arg("--all-types");
        command
    };
    let pairs = interleave(
        runs,
        || timed(Command::new("pahole").arg(hitm)),
        || timed(&mut all_types()),
    )?;
    let ratio = median(&pairs.ratios);
    let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
    Ok(Some(Row::said(
        "hitm layout --all-types : pahole",
        &format!("at most {OF_PAHOLE} of its time"),
        format!(
            "{ratio:.3} of its time ({:.3}..{:.3}, {} pairs)",
            end(pairs.ratios.first()),
            end(pairs.ratios.last()),
            pairs.n
        ),
        Some(ratio <= OF_PAHOLE),
    )))
}

/// The time to find and show one type.
pub(super) fn type_row(hitm: &Path, runs: u32) -> Result<Row> {
    let command = || {
        let mut command = Command::new(hitm);
        command.arg("layout").arg(hitm);
        command.arg("hitm_model::finding::Finding");
        command
    };
    let seconds = (0..runs)
        .map(|_| {
            let cost = resident::run(&mut command(), BOUND)?;
            Ok(cost.good(&command())?.seconds)
        })
        .collect::<Result<Vec<f64>>>()?;
    Ok(Row::at_most(
        "hitm layout TYPE: time",
        &seconds,
        SECONDS_TYPE,
        "s",
    ))
}
