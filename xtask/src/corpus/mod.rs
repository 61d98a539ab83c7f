//! Runs `hitm run` on a folder of programs whose sharing is known and compares what it says with the truth.
//!
//! # Caveats
//! A verdict needs threads that run side by side. On a busy machine with few processors they sometimes do not; the
//! table says for each run in which share of the time they did, and a miss counts as a miss all the same.

mod copy;
mod table;
mod truth;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hitm_testkit::{Claim, Judgement, judge, parse_truth, run_limited};

use crate::tools::{build_hitm, check, install, target_dir};
use table::Row;
use truth::{Case, Program};

const TIME_LIMIT: Duration = Duration::from_secs(120);

/// Builds the programs of `dir` and runs each, in both layouts, `runs` times.
pub(crate) fn run(
    dir: &Path,
    runs: u32,
    only: Option<&str>,
    hitm: Option<PathBuf>,
) -> Result<ExitCode> {
    let hitm = hitm.map_or_else(build_hitm, |hitm| Ok(hitm.canonicalize()?))?;
    let work = work_folder(dir)?;
    copy::refresh(dir, &work).with_context(|| format!("cannot copy {}", dir.display()))?;
    build(&work)?;

    let list = work.join("truth.tsv");
    let text = std::fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let programs: Vec<Program> = truth::parse(&text)?
        .into_iter()
        .filter(|program| only.is_none_or(|only| only == program.id))
        .collect();
    if programs.is_empty() {
        bail!("no program to run; truth.tsv lists others");
    }

    let mut rows = Vec::new();
    for run in 1..=runs {
        for program in &programs {
            for case in program.cases() {
                let row = Row::new(run, &case, judged(&hitm, &work, &case));
                println!("{}", row.line());
                rows.push(row);
            }
        }
    }
    print!("{}", table::summary(&rows));
    Ok(if rows.iter().all(Row::right) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A folder of our own per corpus, so that two of the same name do not mix.
fn work_folder(dir: &Path) -> Result<PathBuf> {
    let real = dir
        .canonicalize()
        .with_context(|| dir.display().to_string())?;
    let parts = real
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    let name: Vec<_> = parts.filter(|part| part != "/").collect();
    Ok(target_dir()?.join("corpus").join(name.join("-")))
}

fn build(work: &Path) -> Result<()> {
    install(&[("make", "make"), ("gcc", "gcc"), ("g++", "g++")]);
    let mut make = Command::new("make");
    // The programs are built as their makefile says, not as ours are.
    for variable in [
        "CARGO_TARGET_DIR",
        "RUSTFLAGS",
        "CARGO_ENCODED_RUSTFLAGS",
        "MAKEFLAGS",
    ] {
        make.env_remove(variable);
    }
    check(make.arg("-C").arg(work))
}

/// Runs one program in one layout under hitm and judges the report.
fn judged(hitm: &Path, work: &Path, case: &Case<'_>) -> Result<Judgement> {
    let json = work.join("report.json");
    let _ = std::fs::remove_file(&json);
    let mut command = Command::new(hitm);
    command
        .current_dir(work)
        .args([
            "run",
            "--json=report.json",
            "-o",
            "last.hitm",
            "--threads-by",
            "tid",
            "--",
        ])
        .arg(format!("bin/{}", case.program.id))
        .args(case.arguments())
        .arg("--addrs");
    let outcome = run_limited(&mut command, TIME_LIMIT)?;
    if outcome.timed_out {
        bail!("not done after {} s", TIME_LIMIT.as_secs());
    }
    let text = std::fs::read_to_string(&json).with_context(|| {
        format!(
            "no report ({}): {}",
            outcome.status,
            last_line(&outcome.stderr)
        )
    })?;
    let report = serde_json::from_str(&text).context("the report is not JSON")?;
    let truths =
        parse_truth(&outcome.stderr).map_err(|line| anyhow::anyhow!("bad truth: {line}"))?;
    let claims: Vec<Claim> = truths
        .into_iter()
        .filter(|truth| case.claims(truth))
        .map(|truth| Claim {
            truth,
            ending: None,
            named: true,
        })
        .collect();
    if case.verdict.is_some() && claims.is_empty() {
        bail!("the program printed no addresses");
    }
    judge(&report, case.verdict, &claims).map_err(anyhow::Error::msg)
}

fn last_line(text: &str) -> &str {
    text.trim().lines().next_back().unwrap_or("no output")
}
