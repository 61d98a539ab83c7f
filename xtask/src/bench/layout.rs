//! The time to read all types of a large binary, beside pahole; to find one type; to compare two builds.
//!
//! The binary is hitm itself with full debug information.

use std::process::Command;

use anyhow::Result;
use hitm_testkit::{have_tool, skipped};

use super::{against, succeed};
use crate::pairs::{Run, interleave, median};
use crate::tools::{build_hitm, install};

/// At most this much of pahole's time.
const OF_PAHOLE: f64 = 0.2;
const SECONDS_TYPE: f64 = 1.0;
const SECONDS_DIFF: f64 = 8.0;

/// Prints the median ratio to pahole and the times of the commands that look at one thing.
pub(crate) fn layout(runs: u32) -> Result<()> {
    install(&[("pahole", "dwarves")]);
    let hitm = build_hitm()?;
    let size = std::fs::metadata(&hitm)?.len() as f64 / 1e6;
    println!("{} ({size:.0} MB)", hitm.display());
    let timed = |command: &mut Command| {
        let cost = succeed(command)?.elapsed.as_secs_f64();
        // What is compared is the whole command, however many threads it has.
        Ok(Run {
            cost,
            side_by_side: true,
        })
    };
    if have_tool("pahole") {
        let pairs = interleave(
            runs,
            || timed(Command::new("pahole").arg(&hitm)),
            || {
                timed(
                    Command::new(&hitm)
                        .arg("layout")
                        .arg(&hitm)
                        .arg("--all-types"),
                )
            },
        )?;
        let ratio = median(&pairs.ratios);
        println!(
            "all types: {ratio:.3} of pahole's time ({}: at most {OF_PAHOLE}), {:.3}..{:.3} in {} pairs",
            against(ratio, OF_PAHOLE),
            pairs.ratios.first().copied().unwrap_or(f64::NAN),
            pairs.ratios.last().copied().unwrap_or(f64::NAN),
            pairs.n,
        );
    } else {
        skipped("no pahole: apt-get install dwarves");
    }
    let median_of = |command: &mut dyn FnMut() -> Command| -> Result<f64> {
        let mut times = Vec::new();
        for _ in 0..runs {
            times.push(succeed(&mut command())?.elapsed.as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(median(&times))
    };
    let mut one = || {
        let mut command = Command::new(&hitm);
        command
            .arg("layout")
            .arg(&hitm)
            .arg("hitm_model::finding::Finding");
        command
    };
    let time = median_of(&mut one)?;
    println!(
        "one type: {time:.2} s ({}: at most {SECONDS_TYPE})",
        against(time, SECONDS_TYPE)
    );
    let mut two = || {
        let mut command = Command::new(&hitm);
        command.arg("diff").arg(&hitm).arg(&hitm);
        command
    };
    let time = median_of(&mut two)?;
    println!(
        "diff with itself: {time:.2} s ({}: at most {SECONDS_DIFF})",
        against(time, SECONDS_DIFF)
    );
    Ok(())
}
