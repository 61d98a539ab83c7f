//! The time and memory to check a large binary without running it, beside the other tools that do so; and with it all
//! that was asked of the commands that read binaries.
//!
//! The binary is hitm itself with full debug information, and a second link of it for `hitm diff`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use hitm_testkit::Story1;
use serde_json::Value;

use super::asked::{Row, print};
use super::layout::{pahole_row, type_row};
use super::resident::{Cost, Ended, run};
use super::rivals::{RIVALS, Rival};
use crate::pairs::median;
use crate::tools::{build_hitm, cargo, check as run_check, install, target_dir};

const SECONDS: f64 = 5.0;
const MEMORY_MIB: f64 = 1536.0;
const SECONDS_DIFF: f64 = 8.0;
/// The size of a binary for which the limits were set.
const MEGABYTES: f64 = 100.0;
/// No command gets more time than this.
const BOUND: Duration = Duration::from_secs(120);

/// Prints what was asked and what was measured.
pub(crate) fn check(runs: u32) -> Result<()> {
    install(&[("pahole", "dwarves")]);
    let (hitm, relinked) = builds()?;
    let size = std::fs::metadata(&hitm)?.len() as f64 / 1e6;
    println!("the binary: {}", hitm.display());
    let mut rows = vec![Row::said(
        "size of the binary",
        &format!("at least {MEGABYTES} MB"),
        format!("{size:.0} MB"),
        Some(size >= MEGABYTES),
    )];
    rows.extend(own_rows(&hitm, runs)?);
    for rival in &RIVALS {
        rows.push(beside(rival, &hitm, (&hitm, "hitm"), runs));
        // Those that cannot read that file may be able to read a small one.
        match Story1::without_header_object().build() {
            Ok(story) => {
                let story = story.program;
                rows.push(beside(rival, &hitm, (&story, "story 1, C++"), runs));
            }
            Err(error) => println!("story 1 cannot be built: {error}"),
        }
    }
    rows.extend(pahole_row(&hitm, runs)?);
    rows.push(type_row(&hitm, runs)?);
    rows.extend(diff_rows(&hitm, &relinked, runs)?);
    print(&rows);
    Ok(())
}

/// hitm, and the same objects linked in another order.
fn builds() -> Result<(PathBuf, PathBuf)> {
    let built = build_hitm()?;
    let dir = target_dir()?.join("bench");
    std::fs::create_dir_all(&dir)?;
    let (hitm, relinked) = (dir.join("hitm"), dir.join("hitm-relinked"));
    std::fs::copy(&built, &hitm)?;
    let mut other = cargo(&["rustc", "--release", "--package=hitm", "--bin=hitm", "--"]);
    // What a change of code in front of everything does: all of it moves.
    other.args(["-Clink-arg=-Wl,-z,max-page-size=65536"]);
    run_check(&mut other)?;
    std::fs::copy(&built, &relinked)?;
    Ok((hitm, relinked))
}

fn check_command(hitm: &Path, binary: &Path) -> Command {
    let mut command = Command::new(hitm);
    command.arg("check").arg(binary);
    command
}

fn own_rows(hitm: &Path, runs: u32) -> Result<[Row; 2]> {
    let costs = (0..runs)
        .map(|_| {
            let mut command = check_command(hitm, hitm);
            run(&mut command, BOUND)?.good(&command)
        })
        .collect::<Result<Vec<Cost>>>()?;
    let seconds: Vec<f64> = costs.iter().map(|cost| cost.seconds).collect();
    let peaks: Vec<f64> = costs.iter().map(|cost| cost.peak_mib).collect();
    Ok([
        Row::at_most("hitm check: time", &seconds, SECONDS, "s"),
        Row::at_most("hitm check: memory", &peaks, MEMORY_MIB, "MiB"),
    ])
}

/// Interleaved runs of `hitm check` and another tool.
fn beside(rival: &Rival, hitm: &Path, (binary, name): (&Path, &str), runs: u32) -> Row {
    let what = format!("hitm check : {}, on {name}", rival.title());
    let asked = "less time, where it ends";
    match compare(rival, hitm, binary, runs) {
        Ok((measured, met)) => Row::said(&what, asked, measured, met),
        Err(error) => Row::said(&what, asked, format!("not measured: {error:#}"), None),
    }
}

fn compare(rival: &Rival, hitm: &Path, binary: &Path, runs: u32) -> Result<(String, Option<bool>)> {
    let program = rival.install()?;
    let first = run(&mut rival.command(&program, binary), BOUND)?;
    let figures = |cost: &Cost| format!("{:.3} s, {:.0} MiB", cost.seconds, cost.peak_mib);
    match &first.ended {
        Ended::TooLate => {
            let text = format!("it was not done after {}", figures(&first));
            return Ok((text, None));
        }
        Ended::Badly(how) => return Ok((format!("it {how} after {}", figures(&first)), None)),
        Ended::Well => {}
    }
    let (mut ratios, mut theirs) = (Vec::new(), Vec::new());
    for pair in 0..runs {
        let mut sides = [None, None];
        // Sides take turns at being first.
        for side in [pair % 2, 1 - pair % 2] {
            let mut command = match side {
                0 => check_command(hitm, binary),
                _ => rival.command(&program, binary),
            };
            let cost = run(&mut command, BOUND)?.good(&command)?;
            sides[side as usize] = Some(cost);
        }
        if let [Some(own), Some(their)] = sides {
            ratios.push(own.seconds / their.seconds);
            theirs.push(their);
        }
    }
    ratios.sort_by(f64::total_cmp);
    theirs.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let ratio = median(&ratios);
    let typical = theirs.get(theirs.len() / 2).map(figures);
    let text = format!(
        "{ratio:.3} of its time ({:.3}..{:.3}, {runs} pairs); it: {}",
        ratios.first().copied().unwrap_or(f64::NAN),
        ratios.last().copied().unwrap_or(f64::NAN),
        typical.unwrap_or_default()
    );
    Ok((text, Some(ratio < 1.0)))
}

/// The time of `hitm diff`, and whether it sees through a link that moved everything.
fn diff_rows(hitm: &Path, relinked: &Path, runs: u32) -> Result<[Row; 2]> {
    let command = || {
        let mut command = Command::new(hitm);
        command.arg("diff").arg(hitm).arg(relinked);
        command
    };
    let seconds = (0..runs)
        .map(|_| Ok(run(&mut command(), BOUND)?.good(&command())?.seconds))
        .collect::<Result<Vec<f64>>>()?;
    let output = command().arg("--json").output()?;
    let document: Value = serde_json::from_slice(&output.stdout).context("hitm diff --json")?;
    let number = |path: &str| document.pointer(path).and_then(Value::as_u64);
    let lists = ["changed", "appeared", "vanished"].map(|list| {
        let list = document.pointer(&format!("/code/{list}"));
        list.and_then(Value::as_array).map_or(0, Vec::len)
    });
    let moved = number("/code/identical_but_for_addresses").unwrap_or(0);
    let text = format!(
        "{moved} identical but for addresses, {} changed, {} new, {} gone",
        lists[0], lists[1], lists[2]
    );
    Ok([
        Row::at_most("hitm diff, all moved: time", &seconds, SECONDS_DIFF, "s"),
        Row::said(
            "hitm diff, all moved: functions",
            "none changed, new or gone",
            text,
            Some(lists == [0, 0, 0] && moved > 0),
        ),
    ])
}
