//! Both layouts, not sampled, one after the other: what the repair gains on this machine.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hitm_collect::machine::Spread;

use super::workload::{Layout, Tally, Work};

/// One run of each layout, right after each other.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Pair {
    pub(super) packed: Tally,
    pub(super) padded: Tally,
}

impl Pair {
    /// How many times as much the padded layout gets done in the same CPU time; `None` if the threads of either run did
    /// not run side by side for long enough.
    pub(super) fn speed_up(&self) -> Option<f64> {
        Some(nanos_per_item(&self.packed)? / nanos_per_item(&self.padded)?)
    }
}

/// CPU time per item, in the slices in which all threads ran; `None` if there are too few.
pub(super) fn nanos_per_item(run: &Tally) -> Option<f64> {
    let enough = run.good >= ENOUGH_SLICES && run.items > 0;
    enough.then(|| run.cpu.as_nanos() as f64 / run.items as f64)
}

/// Interrupts and the like are a few per cent of one slice, and do not matter in this many.
const ENOUGH_SLICES: usize = 5;

/// The share of a run in which all threads ran, from 0 to 1.
pub(super) fn side_by_side(run: &Tally) -> f64 {
    run.good as f64 / run.slices.max(1) as f64
}

/// The speed-ups of the pairs that count; `None` without any.
pub(super) fn speed_ups(pairs: &[Pair]) -> Option<Spread> {
    Spread::of(pairs.iter().filter_map(Pair::speed_up).collect())
}

/// Pairs that suffice, if they count.
const GOOD_PAIRS: usize = 5;
const MOST_PAIRS: usize = 9;
const MOST_TIME: Duration = Duration::from_secs(5);
const RUN: Duration = Duration::from_millis(220);

/// Measures pairs, `seen` gets each one; `go_on` says whether the user still wants to.
pub(super) fn compare(
    threads: usize,
    go_on: impl Fn() -> bool,
    seen: &mut dyn FnMut(usize, &Pair) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Pair>> {
    let start = Instant::now();
    let mut pairs: Vec<Pair> = Vec::new();
    while pairs.len() < MOST_PAIRS && go_on() {
        let good = speed_ups(&pairs).map_or(0, |spread| spread.count);
        if good >= GOOD_PAIRS || (pairs.len() >= GOOD_PAIRS && start.elapsed() > MOST_TIME) {
            break;
        }
        let run = |layout| {
            perform_elsewhere(&Work {
                layout,
                threads,
                length: RUN,
                compared: true,
            })
        };
        // A B, B A, A B, …: what drifts favours neither.
        let pair = if pairs.len().is_multiple_of(2) {
            let packed = run(Layout::Packed)?;
            Pair {
                packed,
                padded: run(Layout::Padded)?,
            }
        } else {
            let padded = run(Layout::Padded)?;
            Pair {
                packed: run(Layout::Packed)?,
                padded,
            }
        };
        pairs.push(pair);
        seen(pairs.len(), &pair)?;
    }
    Ok(pairs)
}

/// Runs the workload in a process of its own.
fn perform_elsewhere(work: &Work) -> anyhow::Result<Tally> {
    let program = std::env::current_exe().context("hitm cannot find its own file")?;
    let output = Command::new(program)
        .arg(super::WORKLOAD)
        .args(work.arguments())
        .output()
        .context("cannot start the demo's workload")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Tally::parse(&text)
        .filter(|_| output.status.success())
        .with_context(|| format!("the demo's workload failed: {}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(nanos_per_item: u64, good: usize) -> Tally {
        Tally {
            items: 1000,
            cpu: Duration::from_nanos(1000 * nanos_per_item),
            good,
            slices: 50,
        }
    }

    #[test]
    fn only_pairs_that_ran_side_by_side_count() {
        let pairs = [
            (run(30, 50), run(10, 50), Some(3.0)),
            (run(20, 5), run(10, 5), Some(2.0)),
            (run(10, 4), run(10, 50), None),
            (run(10, 50), run(10, 0), None),
        ];
        for (packed, padded, expected) in pairs {
            assert_eq!(Pair { packed, padded }.speed_up(), expected);
        }
        let pairs = pairs.map(|(packed, padded, _)| Pair { packed, padded });
        let spread = speed_ups(&pairs).unwrap();
        assert_eq!((spread.median, spread.count), (2.5, 2));
        assert_eq!(speed_ups(&pairs[2..]), None);
    }
}
