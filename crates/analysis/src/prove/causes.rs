//! What may slow threads down that share no line.

use hitm_model::{Cause, LineSize, Nanos, Placement};

use super::footprint::{Footprint, Footprints, Visit};
use super::steps::{Look, Step, WindowSteps, assess};
use crate::samples::Decoder;
use crate::world::World;

/// Threads closer than this may fetch each other's lines ahead: hardware prefetchers work within a page of 4 KiB. A
/// distance of 2 KiB made the effect vanish where it was looked for.
const NEAR: u64 = 4096;

/// Bytes per nanosecond (GB/s) of all threads that are worth a word.
const FAST: f64 = 1.0;

/// Memory that the threads use together and that may not fit into a core's own caches, in bytes.
const LARGE: f64 = (256 << 10) as f64;

/// All that applies, the likeliest first; nothing if two of the threads share a line that one of them writes.
pub(super) fn causes(
    footprints: &Footprints,
    placements: &[Placement],
    period: Nanos,
    line_size: LineSize,
    decoder: &mut Decoder<'_, '_>,
    world: &World,
) -> Vec<Cause> {
    let all = &footprints.threads;
    let pairs = || (0..all.len()).flat_map(|a| (a + 1..all.len()).map(move |b| (a, b)));
    if pairs().any(|(a, b)| all[a].1.shares_with(&all[b].1)) {
        return Vec::new();
    }
    let name = |place: usize| {
        let thread = world.threads.get(&all[place].0);
        thread.map_or_else(String::new, |thread| thread.name.clone())
    };
    let mut causes = Vec::new();
    let nearest = pairs()
        .filter_map(|(a, b)| {
            let gap = gap(&all[a].1, &all[b].1, line_size)?;
            Some((gap.0, gap.1, a, b))
        })
        .min();
    if let Some((gap, a_is_below, a, b)) = nearest
        && gap <= NEAR
    {
        let (below, above) = if a_is_below { (a, b) } else { (b, a) };
        let (up, down) = (
            all[below].1.direction(decoder),
            all[above].1.direction(decoder),
        );
        let towards = match (up, down) {
            (None, None) => None,
            (up, down) => Some(up == Some(1) || down == Some(-1)),
        };
        causes.push(Cause::Prefetcher {
            below: name(below),
            above: name(above),
            gap,
            towards,
        });
    }
    let speeds = all
        .iter()
        .map(|(_, it)| stream_speed(it, placements, period));
    let speed: f64 = speeds.sum();
    if speed >= FAST {
        causes.push(Cause::Bandwidth {
            bytes_per_second: speed * 1e9,
        });
    }
    let used = all.iter().map(|(_, it)| it.bytes_used(line_size));
    let bytes: f64 = used.sum();
    if bytes >= LARGE {
        causes.push(Cause::Capacity {
            bytes: bytes as u64,
        });
    }
    causes
}

/// The bytes between the nearest lines of two threads, and whether the first is below.
fn gap(a: &Footprint, b: &Footprint, line_size: LineSize) -> Option<(u64, bool)> {
    let (a, b) = (a.main_lines(), b.main_lines());
    let size = u64::from(line_size.bytes());
    let distance = |low: u64, high: u64| high.saturating_sub(low + size);
    a.iter()
        .flat_map(|line| {
            let next = b.partition_point(|other| other <= line);
            let above = b.get(next).map(|it| (distance(line.0.0, it.0.0), true));
            let below = next.checked_sub(1).and_then(|before| b.get(before));
            let below = below.filter(|it| *it != line);
            [above, below.map(|it| (distance(it.0.0, line.0.0), false))]
        })
        .flatten()
        .min()
}

/// How fast a thread walks through memory that it does not come back to soon, in bytes per nanosecond.
fn stream_speed(footprint: &Footprint, placements: &[Placement], period: Nanos) -> f64 {
    let mut fastest: f64 = 0.0;
    for visits in footprint.walks.values() {
        if (visits.len() as u64) * 10 < footprint.samples {
            continue;
        }
        let windows: Vec<WindowSteps> = placements
            .iter()
            .enumerate()
            .map(|(window, placement)| WindowSteps {
                placement: *placement,
                steps: steps(visits, window, period),
            })
            .collect();
        if let Ok(assessment) = assess(&windows, Look::Sampled) {
            fastest = fastest.max(assessment.speed_apart);
        }
    }
    fastest
}

fn steps(visits: &[Visit], window: usize, period: Nanos) -> Vec<Step> {
    let visits: Vec<&Visit> = visits.iter().filter(|it| it.window == window).collect();
    visits
        .windows(2)
        .filter_map(|pair| {
            let [from, to] = pair else { return None };
            let periods = to.index.checked_sub(from.index).filter(|n| *n > 0)?;
            let ran = Nanos(periods as u64 * period.0);
            Some(Step {
                moved: to.address.0.wrapping_sub(from.address.0).cast_signed() as f64,
                ran,
                wall: ran,
            })
        })
        .collect()
}
