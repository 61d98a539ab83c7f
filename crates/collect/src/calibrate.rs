//! How often to sample: as often as the budget allows on this machine.
//!
//! A sample costs some 26 µs in a virtual machine and a fraction of that on metal. So a thread of our own works for a
//! few short windows, every second one sampled, and the difference per sample is what the interrupt costs. It works on
//! more memory than the inner caches hold: an interrupt also evicts, and a loop on registers would not notice.
//!
//! # Caveats
//! Other programs on the processor disturb the windows. The median over pairs of neighbouring windows bears that up to
//! a point; when the pairs disagree on what rate to take, nothing is concluded.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use hitm_model::Nanos;
use nix::sys::resource::{UsageWho, getrusage};

use crate::perf;

/// The rate where nothing is known about the cost of a sample, in samples per second of running time.
pub(crate) const DEFAULT_RATE: u32 = 1000;

const HIGHEST_RATE: u32 = 5000;
const LEAST_RATE: u32 = 100;

/// How much longer a program may take: 1.03 promised, with something left for the noise of the measurement.
const TARGET_SLOWDOWN: f64 = 1.024;

/// What a sample costs a program in all, as a multiple of what the interrupt costs the calibrating thread: the recorder
/// needs a processor too (3–4 µs a sample), and preempts. Measured with `cargo xtask bench overhead` in a guest with
/// two processors, both busy with `xz -T2`: 31 µs a sample of wall time, where calibrating says 17 µs.
const WHOLE_COST: f64 = 1.8;

/// The memory that the calibrating thread works on, in bytes: more than the usual second-level cache.
const WORKING_SET: usize = 4 << 20;

/// While calibrating, samples are taken this often, so that a short window has many.
const PERIOD: Nanos = Nanos(99_991);

/// Pairs of windows that are tried, and how many must be undisturbed.
const PAIRS: usize = 24;
const LEAST_PAIRS: usize = 5;
const WINDOW: Nanos = Nanos::from_millis(1);

/// Measuring ends after so long, with what there is by then.
const BUDGET: Duration = Duration::from_millis(50);

/// What one sample costs the sampled program, estimated from less than 60 ms of measuring; `None` where sampling is
/// refused or the machine was too noisy to tell.
pub(crate) fn sample_cost() -> Option<Nanos> {
    // A thread of its own: the event follows a thread, and the caller may have any priority or mask.
    std::thread::spawn(measure).join().ok()?
}

/// The rate for a sample cost: the highest that keeps the program within the budget.
pub(crate) fn rate_for(cost: Option<Nanos>) -> u32 {
    let Some(cost) = cost else {
        return DEFAULT_RATE;
    };
    // The thread runs for 1 − rate · cost of the time, which is to be at least 1 / slowdown.
    let share = 1.0 - 1.0 / TARGET_SLOWDOWN;
    let rate = share * 1e9 / cost.0.max(1) as f64;
    (rate as u32).clamp(LEAST_RATE, HIGHEST_RATE)
}

/// The time between two samples for a rate: the greatest prime that is not above, so that sampling does not keep
/// step with a program that does something every millisecond.
pub(crate) fn period_of(rate: u32) -> Nanos {
    let most = 1_000_000_000 / u64::from(rate.max(1));
    Nanos((2..=most).rev().find(|&n| is_prime(n)).unwrap_or(2))
}

fn is_prime(n: u64) -> bool {
    n >= 2
        && (2..)
            .take_while(|d| d * d <= n)
            .all(|d| !n.is_multiple_of(d))
}

fn measure() -> Option<Nanos> {
    let start = Instant::now();
    let mut event = perf::hold_on_this_thread(PERIOD).ok()?;
    let mut load = Load::new();
    let rounds = load.rounds_of(WINDOW);
    let mut costs = Vec::with_capacity(PAIRS);
    for pair in 0..PAIRS {
        if start.elapsed() > BUDGET {
            break;
        }
        let switches = n_switches();
        // The order alternates, so that a machine that gets slower does not look like a cost.
        let (mut plain, mut sampled) = (0.0, 0.0);
        for with in [pair % 2 == 0, pair % 2 != 0] {
            if with {
                event.enable().ok()?;
                sampled = load.work(rounds);
                event.disable().ok()?;
            } else {
                plain = load.work(rounds);
            }
        }
        let samples = event.n_samples();
        // A window in which another thread ran says nothing.
        if samples > 0 && switches == n_switches() {
            costs.push((sampled - plain) / samples as f64);
        }
    }
    conclude(costs)
}

/// How often this thread had to make way for another.
fn n_switches() -> Option<i64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
    Some(usage.involuntary_context_switches())
}

/// The median cost, if the quarter of the pairs above and that below it do not lead to very different rates.
fn conclude(mut costs: Vec<f64>) -> Option<Nanos> {
    if costs.len() < LEAST_PAIRS {
        return None;
    }
    costs.sort_by(f64::total_cmp);
    let at = |quarter: usize| whole(costs[(costs.len() - 1) * quarter / 4]);
    let (low, median, high) = (at(1), at(2), at(3));
    let [slow, fast] = [high, low].map(|cost| rate_for(Some(cost)));
    (fast <= slow.saturating_mul(3)).then_some(median)
}

/// The whole cost of a sample whose interrupt costs so many nanoseconds.
fn whole(interrupt: f64) -> Nanos {
    Nanos((interrupt.max(0.0) * WHOLE_COST) as u64)
}

/// Something that keeps a processor and its inner caches busy.
#[derive(Debug)]
struct Load {
    words: Vec<u64>,
    state: u64,
}

impl Load {
    fn new() -> Self {
        // Ones, so that every page is really there before it is timed.
        Self {
            words: vec![1; WORKING_SET / size_of::<u64>()],
            state: 1,
        }
    }

    /// How many rounds of [`Load::work`] take about `window`.
    fn rounds_of(&mut self, window: Nanos) -> u64 {
        const TRIAL: u64 = 100_000;
        self.work(TRIAL);
        let took = self.work(TRIAL).min(self.work(TRIAL)).max(1.0);
        ((TRIAL as f64 * window.0 as f64 / took) as u64).clamp(TRIAL / 10, TRIAL * 100)
    }

    /// Changes words here and there; nanoseconds that it took.
    fn work(&mut self, rounds: u64) -> f64 {
        let start = Instant::now();
        let mut sum = 0u64;
        for _ in 0..rounds {
            // Knuth's MMIX generator: the upper bits are random enough to defeat a prefetcher.
            self.state = self
                .state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let place = (self.state >> 33) as usize % self.words.len();
            sum = sum.wrapping_add(self.words[place]);
            self.words[place] = black_box(sum);
        }
        start.elapsed().as_nanos() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_keeps_the_budget() {
        for (cost, rate) in [(0, 5000), (1_000, 5000), (26_000, 901), (10_000_000, 100)] {
            assert_eq!(rate_for(Some(Nanos(cost))), rate, "{cost} ns");
        }
        assert_eq!(rate_for(None), DEFAULT_RATE);
    }

    #[test]
    fn periods_are_primes_just_below() {
        assert_eq!(period_of(1000), Nanos(999_983));
        for rate in [1, 99, 1000, 4999, 5000, 1_000_000_000, u32::MAX] {
            let period = period_of(rate);
            assert!(is_prime(period.0) && period.0 <= (1_000_000_000 / u64::from(rate)).max(2));
        }
    }

    #[test]
    fn pairs_that_disagree_conclude_nothing() {
        assert_eq!(conclude(vec![26e3; 11]), Some(whole(26e3)));
        let noisy = [
            -90e3, -50e3, -20e3, 0.0, 9e3, 20e3, 30e3, 60e3, 90e3, 200e3, 300e3,
        ];
        assert_eq!(conclude(noisy.to_vec()), None);
        // All of these allow the highest rate.
        let cheap = [
            -900.0, -500.0, -200.0, 0.0, 90.0, 200.0, 300.0, 600.0, 900.0, 2e3, 3e3,
        ];
        assert_eq!(conclude(cheap.to_vec()), Some(whole(200.0)));
        assert_eq!(conclude(Vec::new()), None);
    }
}
