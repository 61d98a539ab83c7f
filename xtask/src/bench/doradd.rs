//! The runtime beside a serial loop, and beside the time that a line takes from one core to the other; its latency, its
//! lookahead, and its memory.

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

/// Logs whose lookahead is compared, and of the first and last the latency: rows, and hot keys.
const LOGS: [(&str, usize, usize); 3] = [
    ("uniform", 1_000_000, 0),
    ("uniform", 10_000_000, 0),
    ("high", 1_000_000, 7),
];

/// Runs all cases, then latency, lookahead, and story 1's layout against the usual one; or only those of one name.
pub(crate) fn doradd(runs: u32, only: Option<&str>) -> Result<()> {
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let names = CASES.iter().map(|case| case.name);
    let others = ["latency", "lookahead", "story1"];
    if let Some(only) = only
        && !names.clone().chain(others).any(|name| name == only)
    {
        let names: Vec<&str> = names.chain(others).collect();
        bail!("no case {only}: one of {}", names.join(", "));
    }
    let kept = tempfile::tempdir()?;
    let usual = build(&[], kept.path())?;
    let large = available_bytes()? >= LARGE_BYTES;
    if CASES.iter().any(|case| wanted(case.name)) {
        rates(&usual, runs, wanted, large)?;
    }
    if wanted("latency") {
        latency(&usual, runs)?;
    }
    if wanted("lookahead") {
        lookahead(&usual, runs, large)?;
    }
    if wanted("story1") {
        story1(&usual, kept.path(), runs)?;
    }
    Ok(())
}

fn rates(usual: &Path, runs: u32, wanted: impl Fn(&str) -> bool, large: bool) -> Result<()> {
    println!("medians of {runs} interleaved pairs; one dispatcher and one worker; ns per request");
    println!("case        rows        base    doradd  rate/base  k/s     processors  base is");
    for case in CASES.iter().filter(|case| wanted(case.name)) {
        print(case, &measure(usual, case, runs)?);
    }
    if wanted(LARGE.name) && large {
        print(&LARGE, &measure(usual, &LARGE, runs)?);
    } else if wanted(LARGE.name) {
        println!("{TOO_LARGE}, 1,000,000 rows stand for them");
    }
    Ok(())
}

const TOO_LARGE: &str = "10,000,000 rows need 10.6 GB of free memory: left out";

/// The time from arrival to end of body when half as many arrive as can be done.
fn latency(program: &Path, runs: u32) -> Result<()> {
    println!(
        "latency at half the rate of a full log; ns from arrival to end of body, medians of {runs} runs"
    );
    println!("log         rows        gap     p50     p90     p99     processors");
    for (name, rows, hot) in [LOGS[0], LOGS[2]] {
        let lines = lines(program, "latency", runs, rows, hot)?;
        let column = |i: usize| -> Result<f64> {
            let values: Option<Vec<f64>> =
                lines.iter().map(|line| line.get(i)?.parse().ok()).collect();
            let mut values = values.with_context(|| format!("latency printed {lines:?}"))?;
            values.sort_by(f64::total_cmp);
            Ok(median(&values))
        };
        println!(
            "{name:<10}  {rows:<10}  {:>6.0}  {:>6.0}  {:>6.0}  {:>6.0}  {:>10.2}",
            column(1)?,
            column(2)?,
            column(3)?,
            column(4)?,
            column(5)?
        );
    }
    Ok(())
}

/// Each fixed distance at which rows are fetched ahead, and the one that the runtime finds.
fn lookahead(program: &Path, runs: u32, large: bool) -> Result<()> {
    println!(
        "ns per request by how many transactions ahead rows are fetched; medians of {runs} interleaved runs"
    );
    println!("log         rows        ahead   doradd  processors  ends at");
    for (name, rows, hot) in LOGS {
        if rows > 1_000_000 && !large {
            println!("{TOO_LARGE}");
            continue;
        }
        let lines = lines(program, "lookahead", runs, rows, hot)?;
        let mut distances: Vec<&str> = Vec::new();
        for line in &lines {
            let distance = line.get(1).context("no distance was printed")?;
            if !distances.contains(&distance.as_str()) {
                distances.push(distance);
            }
        }
        for distance in distances {
            let of = lines
                .iter()
                .filter(|line| line.get(1).is_some_and(|d| d == distance));
            let column = |i: usize| {
                let values = of.clone().filter_map(|line| line.get(i)?.parse().ok());
                let mut values: Vec<f64> = values.collect();
                values.sort_by(f64::total_cmp);
                median(&values)
            };
            println!(
                "{name:<10}  {rows:<10}  {distance:<6}  {:>6.1}  {:>10.2}  {:>7}",
                column(2),
                column(3),
                column(4)
            );
        }
    }
    Ok(())
}

/// The memory at points of a long log.
pub(crate) fn memory() -> Result<()> {
    let kept = tempfile::tempdir()?;
    let program = build(&[], kept.path())?;
    println!("transactions  resident KiB");
    for line in lines(&program, "memory", 0, 1_000_000, 0)? {
        println!("{}", line[1..].join("  "));
    }
    Ok(())
}

fn story1(usual: &Path, keep: &Path, runs: u32) -> Result<()> {
    let story1 = build(&["--features=story1-false-sharing"], keep)?;
    for case in CASES.iter().filter(|case| STORY1.contains(&case.name)) {
        let side = |program: &Path| {
            let pairs = measure(program, case, 1)?;
            let pair = pairs.first().context("no pair was measured")?;
            Ok(Run {
                cost: pair.head,
                side_by_side: pair.processors > 1.8,
            })
        };
        let pairs = interleave(runs, || side(usual), || side(&story1))?;
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
    let lines = lines(program, case.name, runs, case.rows, 0)?;
    let pairs: Option<Vec<Pair>> = lines.iter().map(|fields| parse(fields)).collect();
    pairs.with_context(|| format!("{} printed {lines:?}", case.name))
}

/// Runs the benchmark program, and splits the lines it prints.
fn lines(
    program: &Path,
    case: &str,
    runs: u32,
    rows: usize,
    hot: usize,
) -> Result<Vec<Vec<String>>> {
    let mut command = Command::new(program);
    command
        .args([case, &runs.to_string()])
        .args([rows.to_string(), hot.to_string()]);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok(text.lines().map(fields).collect())
}

fn parse(fields: &[String]) -> Option<Pair> {
    let [_, base, head, _, processors] = fields else {
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
