//! The time to report on a long recording.
//!
//! The recording is a short real one whose samples are played again and again, later each time, until they make 480
//! thread-seconds: real code, real mappings, real addresses.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use hitm_model::{Event, Nanos};
use hitm_recording::{Writer, read_slice};
use hitm_testkit::Layout;

use super::{against, collector, succeed};
use crate::pairs::median;
use crate::tools::build_hitm;

const THREAD_SECONDS: u64 = 480;
const SECONDS: f64 = 2.0;

/// Prints the median time of `hitm report`.
pub(crate) fn report(runs: u32) -> Result<()> {
    let hitm = build_hitm()?;
    let dir = tempfile::tempdir()?;
    let (short, long) = (dir.path().join("short.hitm"), dir.path().join("long.hitm"));
    let mut record = Command::new(&hitm);
    record
        .env("DUEL_MS", "1500")
        .arg("run")
        .arg("-o")
        .arg(&short)
        .arg("--");
    succeed(record.arg(collector(Layout::Faulty)?))?;
    let samples = prolong(&short, &long)?;
    let size = std::fs::metadata(&long)?.len() as f64 / 1e6;
    let mut times = Vec::new();
    for _ in 0..runs {
        let mut command = Command::new(&hitm);
        times.push(
            succeed(command.arg("report").arg(&long))?
                .elapsed
                .as_secs_f64(),
        );
    }
    times.sort_by(f64::total_cmp);
    let time = median(&times);
    println!(
        "report of {THREAD_SECONDS} thread-seconds ({samples} samples, {size:.1} MB): {time:.2} s ({}: at most {SECONDS}), {:.2}..{:.2}",
        against(time, SECONDS),
        times.first().copied().unwrap_or(f64::NAN),
        times.last().copied().unwrap_or(f64::NAN),
    );
    Ok(())
}

/// Writes the short recording as a long one and says how many samples it has.
fn prolong(short: &Path, long: &Path) -> Result<u64> {
    let (events, _damage) = read_slice(&std::fs::read(short)?)?;
    let period = events
        .iter()
        .find_map(|event| match event {
            Event::Sampler(sampler) => Some(sampler.period),
            _ => None,
        })
        .context("the recording does not say how it was sampled")?;
    let samples: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::Sample(sample) => Some(*sample),
            _ => None,
        })
        .collect();
    let (first, last) = samples
        .first()
        .zip(samples.last())
        .context("the recording has no samples")?;
    let span = last.at.since(first.at).plus(period);
    let wanted = THREAD_SECONDS * 1_000_000_000 / period.0.max(1);

    let is_end = |event: &&Event| {
        matches!(
            event,
            Event::ThreadEnded { .. } | Event::ChildEnded { .. } | Event::Ended { .. }
        )
    };
    let mut writer = Writer::new(BufWriter::new(File::create(long)?))?;
    let before = events
        .iter()
        .filter(|event| !is_end(event) && !matches!(event, Event::Sample(_)));
    for event in before {
        writer.event(event)?;
    }
    for (n, sample) in samples.iter().cycle().take(wanted as usize).enumerate() {
        let round = (n / samples.len()) as u64;
        let mut sample = *sample;
        sample.at = sample.at.plus(Nanos(span.0 * round));
        writer.event(&Event::Sample(sample))?;
    }
    let rounds = wanted / samples.len() as u64;
    for event in events.iter().filter(is_end) {
        writer.event(&later(event, Nanos(span.0 * rounds)))?;
    }
    writer.flush()?;
    Ok(wanted)
}

/// The end of something, later.
fn later(event: &Event, span: Nanos) -> Event {
    let mut event = event.clone();
    match &mut event {
        Event::ThreadEnded { at, .. } | Event::Ended { at, .. } => *at = at.plus(span),
        _ => {}
    }
    event
}
