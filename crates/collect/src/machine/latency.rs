//! How long a modified line takes from one core to another.
//!
//! Two pinned threads hand one atomic back and forth; each handover moves the line once. The time of a batch of round
//! trips, divided by the number of handovers, is the latency of one transfer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Cpu;
use super::stats::Spread;
use super::window::{CannotTell, Until, side_by_side};

/// The transfer latency between all pairs of processors, or a sample of them.
#[derive(Clone, PartialEq, Debug)]
pub struct LatencyMatrix {
    /// The processors, in order.
    pub cpus: Vec<Cpu>,
    /// The pairs that were tried, each once, the lower processor first; in order.
    pub pairs: Vec<PairLatency>,
    /// How many pairs there are.
    pub all_pairs: usize,
}

impl LatencyMatrix {
    /// What was found for a pair, in any order.
    #[must_use]
    pub fn between(&self, a: Cpu, b: Cpu) -> Option<&PairLatency> {
        let cpus = [a.min(b), a.max(b)];
        self.pairs.iter().find(|pair| pair.cpus == cpus)
    }
}

/// One pair of processors.
#[derive(Clone, PartialEq, Debug)]
pub struct PairLatency {
    /// The lower one first.
    pub cpus: [Cpu; 2],
    /// Nanoseconds of a one-way transfer over the batches of all windows in which both ran; or why there are none.
    pub one_way: Result<Spread, CannotTell>,
}

/// How much time a [`latency_matrix`] may take.
#[derive(Clone, Copy, Debug)]
pub struct LatencyBudget {
    /// For all pairs together.
    pub total: Duration,
    /// Windows per pair that suffice.
    pub good_windows: usize,
}

/// Measures pairs of `cpus` until the budget is used up; `progress` gets the share that is done, from 0 to 1.
///
/// On a machine with more pairs than fit, the pairs tried are spread evenly over all of them.
///
/// # Errors
/// If there are fewer than two processors.
pub fn latency_matrix(
    cpus: &[Cpu],
    budget: LatencyBudget,
    progress: &mut dyn FnMut(f64),
) -> Result<LatencyMatrix, CannotTell> {
    let all = all_pairs(cpus);
    if all.is_empty() {
        return Err(match cpus {
            [] => CannotTell::UnknownCpus,
            _ => CannotTell::OneCpu,
        });
    }
    let end = Instant::now() + budget.total;
    let mut pairs: Vec<PairLatency> = Vec::new();
    for (done, index) in spread_order(all.len()).enumerate() {
        let left = end.saturating_duration_since(Instant::now());
        if done > 0 && left.is_zero() {
            break;
        }
        let share = left / u32::try_from(all.len() - done).unwrap_or(u32::MAX);
        if let Some(&cpus) = all.get(index) {
            let share = share.max(LEAST_PER_PAIR);
            pairs.push(PairLatency {
                cpus,
                one_way: pair_latency(cpus, share, budget.good_windows),
            });
        }
        progress((done + 1) as f64 / all.len() as f64);
    }
    pairs.sort_by_key(|pair| pair.cpus);
    Ok(LatencyMatrix {
        cpus: cpus.to_vec(),
        pairs,
        all_pairs: all.len(),
    })
}

const WINDOW: Duration = Duration::from_micros(800);
const ROUND_TRIPS: u32 = 32;
/// Enough for a few windows.
const LEAST_PER_PAIR: Duration = Duration::from_millis(4);

/// Measures one pair until enough windows are good or the time is over.
fn pair_latency(cpus: [Cpu; 2], time: Duration, good_windows: usize) -> Result<Spread, CannotTell> {
    let end = Instant::now() + time;
    let (mut windows, mut good, mut latencies) = (0, 0, Vec::new());
    while good < good_windows.max(1) && (windows == 0 || Instant::now() < end) {
        let line = Line(AtomicU64::new(0));
        let window = side_by_side(cpus, WINDOW, |side, until| ping_pong(&line.0, side, until))?;
        windows += 1;
        if window.co_ran() {
            let [timed, _] = window.sides;
            if !timed.result.is_empty() {
                good += 1;
                latencies.extend(timed.result);
            }
        }
    }
    Spread::of(latencies).ok_or(CannotTell::NeverCoRan { good, windows })
}

/// Nothing else may be on the line that is handed over, whatever the line size.
#[repr(align(4096))]
struct Line(AtomicU64);

const _: () = assert!(align_of::<Line>() == 4096 && size_of::<Line>() == 4096);

/// Side 0 makes the value odd, side 1 makes it even again. Side 0 yields nanoseconds per handover, one per batch.
fn ping_pong(value: &AtomicU64, side: usize, until: Until) -> Vec<f64> {
    let mut batches = Vec::with_capacity(if side == 0 { 256 } else { 0 });
    let mut next = side as u64;
    let mut warm = false;
    'window: while !until.over() {
        let start = Instant::now();
        for _ in 0..ROUND_TRIPS {
            let mut spins = 0_u32;
            while value.load(Ordering::Acquire) != next {
                spins += 1;
                // The other side is gone: at its end, or preempted.
                if spins.is_multiple_of(4096) && until.over() {
                    break 'window;
                }
                // No pause instruction: on some processors it lasts longer than a transfer.
            }
            value.store(next + 1, Ordering::Release);
            next += 2;
        }
        if side == 0 && warm {
            batches.push(start.elapsed().as_nanos() as f64 / f64::from(2 * ROUND_TRIPS));
        }
        warm = true;
    }
    // The other side may be waiting for a value in the middle of its batch; it sees the end by itself.
    batches
}

fn all_pairs(cpus: &[Cpu]) -> Vec<[Cpu; 2]> {
    cpus.iter()
        .enumerate()
        .flat_map(|(i, &a)| cpus.iter().skip(i + 1).map(move |&b| [a.min(b), a.max(b)]))
        .collect()
}

/// Every index below `count` once, in an order whose every beginning is spread evenly.
pub(super) fn spread_order(count: usize) -> impl Iterator<Item = usize> {
    // A step near the golden section, without a divisor in common with the count, visits all of them.
    let mut step = ((count as f64 * 0.618).round() as usize).max(1);
    while gcd(step, count) > 1 {
        step += 1;
    }
    (0..count).scan(0, move |at, _| {
        let index = *at;
        *at = (*at + step) % count;
        Some(index)
    })
}

const fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
