//! Runs every way in every round and prints what each costs against the first.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::machine;
use crate::ways::{Entry, WAYS, Way};

/// How long a way runs in a round.
const TIME: Duration = Duration::from_millis(8);
/// How often a run is repeated whose threads did not run side by side.
const TRIES: u32 = 25;

/// One run of one way.
struct Run {
    nanos_per_count: f64,
    side_by_side: bool,
}

/// What was measured of a way.
#[derive(Default)]
struct Row {
    nanos: Vec<f64>,
    ratios: Vec<f64>,
    apart: usize,
}

pub fn table(cpus: &[usize], rounds: usize) -> Result<()> {
    let counts: Vec<u64> = WAYS
        .iter()
        .map(|way| calibrate(way, cpus))
        .collect::<Result<_>>()?;
    let mut rows: Vec<Row> = WAYS.iter().map(|_| Row::default()).collect();
    for round in 0..rounds {
        let mut runs: Vec<Option<Run>> = WAYS.iter().map(|_| None).collect();
        // Each round starts elsewhere, so that no way is always behind the same one.
        for i in 0..WAYS.len() {
            let at = (i + round * 5) % WAYS.len();
            runs[at] = Some(run_together(&WAYS[at], cpus, counts[at])?);
        }
        let runs: Vec<Run> = runs.into_iter().flatten().collect();
        let base = &runs[0];
        for (row, run) in rows.iter_mut().zip(&runs) {
            if run.side_by_side {
                row.nanos.push(run.nanos_per_count);
            }
            if run.side_by_side && base.side_by_side {
                row.ratios.push(run.nanos_per_count / base.nanos_per_count);
            } else {
                row.apart += 1;
            }
        }
    }
    println!(
        "\n{} thread(s)                                ns per count    ratio   (range)",
        cpus.len()
    );
    for ((name, _), row) in WAYS.iter().zip(&mut rows) {
        row.nanos.sort_by(f64::total_cmp);
        row.ratios.sort_by(f64::total_cmp);
        let range = match row.ratios.as_slice() {
            [first, .., last] => format!("({first:.2}..{last:.2})"),
            _ => "(too few rounds side by side)".to_owned(),
        };
        let apart = match row.apart {
            0 => String::new(),
            n => format!(", {n} of {rounds} rounds left out: not side by side"),
        };
        println!(
            "{name:<42} {:>9.2} {:>12.2}   {range}{apart}",
            median(&row.nanos),
            median(&row.ratios),
        );
    }
    Ok(())
}

pub fn median(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// How many counts take about `TIME`.
fn calibrate(way: &Entry, cpus: &[usize]) -> Result<u64> {
    let n = 50_000;
    let run = run_together(way, cpus, n)?;
    Ok((TIME.as_nanos() as f64 / run.nanos_per_count.max(0.05)) as u64)
}

fn run_together(way: &Entry, cpus: &[usize], n: u64) -> Result<Run> {
    let mut run = run(way, cpus, n)?;
    for _ in 1..TRIES {
        if run.side_by_side {
            break;
        }
        run = self::run(way, cpus, n)?;
    }
    Ok(run)
}

fn run((name, new): &Entry, cpus: &[usize], n: u64) -> Result<Run> {
    let way = new();
    let way: &dyn Way = &*way;
    let barrier = Barrier::new(cpus.len());
    let spans: Vec<(Instant, Instant, Duration)> = thread::scope(|scope| {
        let threads: Vec<_> = (cpus.iter().enumerate())
            .map(|(thread, &cpu)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    machine::pin(cpu);
                    // The first count on a thread is another thing.
                    way.count(thread, 1);
                    barrier.wait();
                    let (began, cpu_before) = (Instant::now(), machine::thread_time());
                    way.count(thread, n);
                    (began, Instant::now(), machine::thread_time() - cpu_before)
                })
            })
            .collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .collect()
    });
    let expected = (n + 1) * cpus.len() as u64;
    if let Some(total) = way.total()
        && total != expected
    {
        bail!("{name}: {total} instead of {expected}");
    }
    let walls: Vec<Duration> = spans
        .iter()
        .map(|(began, ended, _)| *ended - *began)
        .collect();
    let (Some(first), Some(last)) = (
        spans.iter().map(|span| span.0).max(),
        spans.iter().map(|span| span.1).min(),
    ) else {
        bail!("{name}: no thread ran");
    };
    let longest = walls.iter().max().copied().unwrap_or_default();
    let overlap = last.saturating_duration_since(first);
    let on_cpu = (spans.iter().zip(&walls))
        .all(|((_, _, used), wall)| used.as_secs_f64() >= 0.95 * wall.as_secs_f64());
    // What waiting for a processor costs is not what counting costs; waiting for a line is processor time.
    let used = spans.iter().map(|span| span.2.as_secs_f64()).sum::<f64>() / spans.len() as f64;
    let alone = spans.len() == 1;
    Ok(Run {
        nanos_per_count: used * 1e9 / n as f64,
        side_by_side: alone || on_cpu && overlap.as_secs_f64() >= 0.8 * longest.as_secs_f64(),
    })
}
