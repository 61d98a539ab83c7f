//! The layout that the runtime must have. Checked in the program without running it: `hitm check` with the policy of
//! doradd's programs passes on the usual build, and fails on the one with the false sharing of story 1. And seen while it
//! runs: `hitm run` names that sharing in the latter, and no other in the former.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use hitm_testkit::skipped;
use serde_json::Value;

use crate::tools::{cargo, check, target_dir};

const POLICY: &str = "crates/doradd-workloads/hitm.toml";
/// What `hitm check` must say of the build with the feature.
const VIOLATION: &str = "Progress.spawned and Progress.signals share a line";

/// What `hitm run` must name of it.
const FIELDS: [&str; 2] = ["progress.spawned", "progress.signals"];
/// False sharing at most, as a share of the participants' time, in the usual build.
const MOST: f64 = 0.01;
/// Below this share of the time threads did not run side by side in earnest: what was not seen then may be there.
const SIDE_BY_SIDE: f64 = 0.25;
/// The exit code of hitm on a machine that does not let it sample.
const REFUSED: i32 = 3;
/// How often is looked where they did not.
const LOOKS: u32 = 3;

/// Checks both builds.
pub(crate) fn policy() -> Result<()> {
    check(&mut cargo(&["build", "--package=hitm", "--bin=hitm"]))?;
    let hitm = target_dir()?.join("debug/hitm");
    // Optimised, as they are used: where the threads of a debug build meet is not where theirs do.
    let built = target_dir()?.join("release");
    let build = |features: &[&str]| {
        let ycsb = [
            "build",
            "--release",
            "--package=doradd-workloads",
            "--bin=ycsb",
        ];
        check(cargo(&ycsb).args(features))
    };
    build(&["--features=story1-false-sharing"])?;
    let faulty = built.join("ycsb-story1");
    fs::copy(built.join("ycsb"), &faulty).context("cannot copy the program")?;
    // Last, so that what lies there afterwards is what people expect.
    build(&[])?;
    let (code, said) = violations(&hitm, &faulty)?;
    if code != Some(1) || !said.contains(VIOLATION) {
        bail!(
            "hitm check does not find the false sharing of story 1 in {}:\n{said}",
            faulty.display()
        );
    }
    let repaired = built.join("ycsb");
    let (code, said) = violations(&hitm, &repaired)?;
    if code != Some(0) {
        bail!("{} violates {POLICY}:\n{said}", repaired.display());
    }
    eprintln!("{POLICY}: kept by ycsb, and violated by its build with story1-false-sharing");
    live(&hitm, &faulty, &repaired)
}

/// Both builds while they run.
fn live(hitm: &Path, faulty: &Path, repaired: &Path) -> Result<()> {
    let work = tempfile::tempdir()?;
    let log = work.path().join("log");
    check(
        Command::new(repaired)
            .args(["gen", "--txns=200000", "--rows=20000", "-o"])
            .arg(&log),
    )?;
    let Some(seen) = look_until(
        |seen| seen.names_the_pair,
        || look(hitm, faulty, work.path()),
    )?
    else {
        return Ok(());
    };
    if !seen.names_the_pair {
        if seen.side_by_side < SIDE_BY_SIDE {
            skipped(NOT_SIDE_BY_SIDE);
            return Ok(());
        }
        bail!(
            "hitm run does not name {} in {}: {}",
            FIELDS.join(" and "),
            faulty.display(),
            seen.words
        );
    }
    let ran = |seen: &Seen| seen.side_by_side >= SIDE_BY_SIDE;
    let Some(seen) = look_until(ran, || look(hitm, repaired, work.path()))? else {
        return Ok(());
    };
    if seen.falsely_shared > MOST {
        bail!(
            "hitm run finds false sharing in {}: {}",
            repaired.display(),
            seen.words
        );
    }
    if !ran(&seen) {
        skipped(NOT_SIDE_BY_SIDE);
        return Ok(());
    }
    eprintln!(
        "hitm run: names {} in the build with story1-false-sharing, and no false sharing in the usual one",
        FIELDS.join(" and ")
    );
    Ok(())
}

const NOT_SIDE_BY_SIDE: &str =
    "hitm run of ycsb: its threads did not run side by side, the machine is busy";

/// Looks again while it is not clear what there is to see; gives the look with the threads side by side for the longest.
fn look_until(
    is_clear: impl Fn(&Seen) -> bool,
    look: impl Fn() -> Result<Option<Seen>>,
) -> Result<Option<Seen>> {
    let mut best: Option<Seen> = None;
    for _ in 0..LOOKS {
        let Some(seen) = look()? else {
            return Ok(None);
        };
        if is_clear(&seen) {
            return Ok(Some(seen));
        }
        if best
            .as_ref()
            .is_none_or(|best| seen.side_by_side > best.side_by_side)
        {
            best = Some(seen);
        }
    }
    Ok(best)
}

/// What `hitm run` says of a run.
struct Seen {
    names_the_pair: bool,
    /// The largest share of the participants' time in false sharing.
    falsely_shared: f64,
    side_by_side: f64,
    words: String,
}

/// Runs a build under `hitm run`. Nothing if the machine does not let hitm sample, which is said.
fn look(hitm: &Path, program: &Path, work: &Path) -> Result<Option<Seen>> {
    let report = work.join("report.json");
    let output = Command::new(hitm)
        .current_dir(work)
        .args(["run", "--json=report.json", "-o", "ycsb.hitm", "--"])
        .arg(program)
        .args([
            "-n1",
            "log",
            "--rows=20000",
            "--row-bytes=64",
            "--seconds=2",
        ])
        .output()
        .context("cannot start hitm")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(REFUSED) {
        skipped(&format!("hitm run of ycsb: {}", said.trim()));
        return Ok(None);
    }
    let text = fs::read_to_string(&report).with_context(|| format!("no report: {said}"))?;
    fs::remove_file(&report)?;
    let report = serde_json::from_str(&text).context("the report is not JSON")?;
    Ok(Some(seen(&report)))
}

fn seen(report: &Value) -> Seen {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_false =
        |finding: &Value| matches!(finding["verdict"].as_str(), Some("false-sharing" | "mixed"));
    let findings: Vec<Value> = list(&report["findings"])
        .into_iter()
        .filter(is_false)
        .collect();
    let paths = |finding: &Value| -> Vec<String> {
        let participants = list(&finding["participants"]).into_iter();
        let path = |it: Value| it["field_path"].as_str().map(str::to_owned);
        participants.filter_map(path).collect()
    };
    let share = |finding: &Value| finding["severity"]["share"].as_f64().unwrap_or(0.0);
    let names_all = |finding: &Value| {
        let paths = paths(finding);
        let is_named = |field: &&str| paths.iter().any(|path| path.contains(*field));
        FIELDS.iter().all(is_named)
    };
    let words = |finding: &Value| format!("{:.1} % {:?}", 100.0 * share(finding), paths(finding));
    Seen {
        names_the_pair: findings.iter().any(names_all),
        falsely_shared: findings.iter().map(share).fold(0.0, f64::max),
        side_by_side: report["totals"]["co_running_share"].as_f64().unwrap_or(0.0),
        words: findings.iter().map(words).collect::<Vec<_>>().join("; "),
    }
}

/// The exit code of `hitm check`, and all it said.
fn violations(hitm: &Path, program: &Path) -> Result<(Option<i32>, String)> {
    let mut command = Command::new(hitm);
    let output = command
        .current_dir(crate::tools::root())
        .args(["check", "--policy", POLICY, "--json"])
        .arg(program)
        .output()
        .context("cannot start hitm")?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), said))
}
