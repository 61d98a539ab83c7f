//! What `hitm run` costs the program it watches, and what the recorder itself needs.

use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hitm_testkit::Layout;

use super::{TIME_LIMIT, against, collector, succeed};
use crate::pairs::{Run, children_cpu, interleave, median};
use crate::tools::{build_hitm, install};

const SLOWDOWN: f64 = 1.03;
const MEMORY_MIB: f64 = 64.0;
const MB_PER_THREAD_SECOND: f64 = 0.5;
/// Two threads that use less than this many processors did not run side by side.
const SIDE_BY_SIDE_CPUS: f64 = 1.6;
const COLLECTOR_MS: &str = "1500";

/// How a program's cost is read.
#[derive(Clone, Copy)]
enum Cost {
    /// It does a fixed work: its time, as the shell measures it, without what hitm does before and after.
    Time,
    /// It works for a fixed time: the inverse of what it did, as it prints.
    PerBatch,
}

/// Prints slowdown, memory and recording size for four programs.
pub(crate) fn overhead(runs: u32) -> Result<()> {
    install(&[("xz", "xz-utils"), ("zstd", "zstd")]);
    let hitm = build_hitm()?;
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    generate(&data)?;
    let data = data.to_string_lossy().into_owned();
    let (packed, padded) = (collector(Layout::Faulty)?, collector(Layout::Repaired)?);
    let alone = |program: PathBuf| vec![program.to_string_lossy().into_owned()];
    let xz = ["xz", "-T2", "-1", "--block-size=4MiB", "-k", "-c", &data];
    let zstd = ["zstd", "-T2", "-q", "-12", "-B2MiB", "-k", "-c", &data];
    let subjects = [
        ("collector, packed", alone(packed), Cost::PerBatch),
        ("collector, padded", alone(padded), Cost::PerBatch),
        ("xz -T2", timed(&xz), Cost::Time),
        ("zstd -T2", timed(&zstd), Cost::Time),
    ];
    for (name, command, cost) in subjects {
        let watched = |program: &Path| {
            let mut run = Command::new(program);
            run.current_dir(dir.path());
            run.args(["run", "-o", "bench.hitm", "--json=bench.json", "--"])
                .args(&command);
            run
        };
        let pairs = interleave(
            runs,
            || measure(Command::new(&command[0]).args(&command[1..]), cost),
            || measure(&mut watched(&hitm), cost),
        );
        let pairs = match pairs {
            Ok(pairs) => pairs,
            Err(error) => {
                println!("{name:<20} not measured: {error:#}");
                continue;
            }
        };
        let slowdown = median(&pairs.ratios);
        let judged = match pairs.side_by_side {
            0 => "not judged",
            _ => against(slowdown, SLOWDOWN),
        };
        println!(
            "{name:<20} slowdown {slowdown:.3} ({judged}: at most {SLOWDOWN}; {:.3}..{:.3}), side by side in {} of {} pairs",
            pairs.ratios.first().copied().unwrap_or(f64::NAN),
            pairs.ratios.last().copied().unwrap_or(f64::NAN),
            pairs.side_by_side,
            pairs.n,
        );
        let peak = peak_mib(&mut watched(&hitm))?;
        let size = fs::metadata(dir.path().join("bench.hitm"))?.len() as f64;
        let samples = samples_of(&dir.path().join("bench.json"))?;
        let at_1_khz = size / samples * 1000.0 / 1e6;
        println!(
            "{:<20} recorder {peak:.1} MiB ({}: at most {MEMORY_MIB}), {at_1_khz:.3} MB per thread-second at 1 kHz ({}: at most {MB_PER_THREAD_SECOND})",
            "",
            against(peak, MEMORY_MIB),
            against(at_1_khz, MB_PER_THREAD_SECOND),
        );
    }
    Ok(())
}

fn measure(command: &mut Command, cost: Cost) -> Result<Run> {
    command.env("DUEL_MS", COLLECTOR_MS);
    let before = children_cpu()?;
    let outcome = succeed(command)?;
    let (cost, cpus) = match cost {
        Cost::Time => {
            let (wall, cpu) = shell_times(&outcome.stderr).context("the shell printed no times")?;
            (wall, cpu / wall)
        }
        Cost::PerBatch => {
            let batch = seconds_per_batch(&outcome.stdout);
            let cpus = (children_cpu()? - before) / outcome.elapsed.as_secs_f64();
            (batch.context("the collector printed no batches")?, cpus)
        }
    };
    let side_by_side = cpus >= SIDE_BY_SIDE_CPUS;
    Ok(Run { cost, side_by_side })
}

/// The command in a shell that measures it and drops its output.
fn timed(command: &[&str]) -> Vec<String> {
    let script = "TIMEFORMAT='took=%R user=%U system=%S'; time \"$@\" > /dev/null";
    let shell = ["bash", "-c", script, "bash"];
    shell
        .iter()
        .chain(command)
        .map(|&word| word.into())
        .collect()
}

/// Wall and CPU seconds from `took=2.345 user=4.100 system=0.200`.
fn shell_times(output: &str) -> Option<(f64, f64)> {
    let value = |key: &str| -> Option<f64> {
        let found = output
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key));
        found?.parse().ok()
    };
    Some((value("took=")?, value("user=")? + value("system=")?))
}

/// From `… wall_ms=452 overlap_ms=450 batches=1201,1189`.
fn seconds_per_batch(output: &str) -> Option<f64> {
    let value = |key: &str| {
        output
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key))
    };
    let wall: f64 = value("wall_ms=")?.parse().ok()?;
    let batches = value("batches=")?
        .split(',')
        .map(|n| n.parse::<f64>().ok())
        .sum::<Option<f64>>()?;
    (batches > 0.0).then_some(wall / 1000.0 / batches)
}

/// The most memory that the process itself, not its children, ever had resident.
fn peak_mib(command: &mut Command) -> Result<f64> {
    let mut child = command
        .env("DUEL_MS", COLLECTOR_MS)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let (began, mut peak) = (Instant::now(), 0.0);
    while child.try_wait()?.is_none() {
        if began.elapsed() > TIME_LIMIT {
            child.kill()?;
            child.wait()?;
            bail!("hitm did not end");
        }
        let text = fs::read_to_string(&status).unwrap_or_default();
        let kib = text.lines().find_map(|line| {
            line.strip_prefix("VmHWM:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        });
        peak = kib.unwrap_or(peak);
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(peak / 1024.0)
}

fn samples_of(report: &Path) -> Result<f64> {
    let json: serde_json::Value = serde_json::from_str(&fs::read_to_string(report)?)?;
    json.pointer("/totals/samples")
        .and_then(serde_json::Value::as_f64)
        .context("no totals.samples in the report")
}

/// A file that a compressor has to work for: words of a small vocabulary in a random order.
fn generate(path: &Path) -> Result<()> {
    let mut file = BufWriter::new(fs::File::create(path)?);
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..6_000_000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        write!(file, "{:x} ", x % 4096)?;
    }
    file.flush()?;
    Ok(())
}
