//! The runtime beside a serial loop, and beside the time that a line takes from one core to the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::pairs::{Run, interleave, median};
use crate::tools::cargo;

/// A case: its name, what its baseline is, and what the ratio of rates should at least be.
struct Case {
    name: &'static str,
    rows: usize,
    base: &'static str,
    must: Option<f64>,
}

const SERIAL: &str = "serial loop with prefetch";
const LINE: &str = "a line from core to core";

const CASES: [Case; 7] = [
    case("uniform", 1_000_000, SERIAL, Some(0.95)),
    case("moderate", 1_000_000, SERIAL, None),
    case("high", 1_000_000, SERIAL, None),
    case("empty", 1_000_000, SERIAL, None),
    case("pipelined", 1_000_000, SERIAL, None),
    case("when1", 0, LINE, None),
    case("when2", 0, LINE, None),
];

/// The uniform case on as many rows as the reference was measured with.
const LARGE: Case = case("uniform", 10_000_000, SERIAL, Some(1.05));
/// What its rows, their tails and the log need.
const LARGE_BYTES: u64 = 10_600_000_000;

/// Cases that story 1's layout is measured with.
const STORY1: [&str; 2] = ["high", "empty"];

const fn case(name: &'static str, rows: usize, base: &'static str, must: Option<f64>) -> Case {
    Case {
        name,
        rows,
        base,
        must,
    }
}

/// What a pair of runs gave.
struct Pair {
    base: f64,
    head: f64,
    processors: f64,
}

/// Runs all cases, then story 1's layout against the usual one.
pub(crate) fn doradd(runs: u32) -> Result<()> {
    let kept = tempfile::tempdir()?;
    let usual = build(&[], kept.path())?;
    let story1 = build(&["--features=story1-false-sharing"], kept.path())?;
    println!("medians of {runs} interleaved pairs; one dispatcher and one worker; ns per request");
    println!("case        rows        base    doradd  rate/base  k/s     processors  base is");
    for case in &CASES {
        print(case, &measure(&usual, case, runs)?);
    }
    if available_bytes()? >= LARGE_BYTES {
        print(&LARGE, &measure(&usual, &LARGE, runs)?);
    } else {
        println!(
            "10,000,000 rows need 10.6 GB of free memory: left out, 1,000,000 rows stand for them"
        );
    }
    for case in CASES.iter().filter(|case| STORY1.contains(&case.name)) {
        let side = |program: &Path| {
            let pairs = measure(program, case, 1)?;
            let pair = pairs.first().context("no pair was measured")?;
            Ok(Run {
                cost: pair.head,
                side_by_side: pair.processors > 1.8,
            })
        };
        let pairs = interleave(runs, || side(&usual), || side(&story1))?;
        println!(
            "story1-false-sharing on {}: {:.2} times the usual time per request, {} of {} pairs side by side",
            case.name,
            median(&pairs.ratios),
            pairs.side_by_side,
            pairs.n
        );
    }
    Ok(())
}

/// Builds the benchmark program, and keeps a copy that the next build does not replace.
fn build(features: &[&str], keep: &Path) -> Result<PathBuf> {
    let arguments = ["build", "--release", "--package=doradd", "--bench=rates"];
    let output = cargo(&arguments)
        .arg("--message-format=json")
        .args(features)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo build")?;
    if !output.status.success() {
        bail!("cargo build of the benchmark program: {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let program = messages
        .filter(|message| message["target"]["name"] == "rates")
        .find_map(|message| message["executable"].as_str().map(str::to_owned))
        .context("cargo named no program")?;
    let copy = keep.join(if features.is_empty() {
        "usual"
    } else {
        "story1"
    });
    fs::copy(program, &copy)?;
    Ok(copy)
}

fn measure(program: &Path, case: &Case, runs: u32) -> Result<Vec<Pair>> {
    let mut command = Command::new(program);
    command
        .arg(case.name)
        .arg(runs.to_string())
        .arg(case.rows.to_string());
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let pairs: Option<Vec<Pair>> = text.lines().map(parse).collect();
    pairs.with_context(|| format!("{command:?} printed {text:?}"))
}

fn parse(line: &str) -> Option<Pair> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [_, base, head, _, processors] = *fields else {
        return None;
    };
    Some(Pair {
        base: base.parse().ok()?,
        head: head.parse().ok()?,
        processors: processors.parse().ok()?,
    })
}

fn print(case: &Case, pairs: &[Pair]) {
    let of = |value: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = pairs.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        median(&values)
    };
    let ratio = of(|pair| pair.base / pair.head);
    let verdict = match case.must {
        Some(must) if ratio >= must => format!(", at least {must} was asked: met"),
        Some(must) => format!(", at least {must} was asked: MISSED"),
        None => String::new(),
    };
    println!(
        "{:<10}  {:<10}  {:>6.1}  {:>6.1}  {ratio:>9.2}  {:>6.0}  {:>10.2}  {}{verdict}",
        case.name,
        case.rows,
        of(|pair| pair.base),
        of(|pair| pair.head),
        of(|pair| 1e6 / pair.head),
        of(|pair| pair.processors),
        case.base,
    );
}

/// Memory that can be had without swapping.
fn available_bytes() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let kilobytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok())
        .context("no MemAvailable in /proc/meminfo")?;
    Ok(kilobytes * 1024)
}
