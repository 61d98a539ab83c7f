//! How often to sample: as often as the budget allows on this machine.
//!
//! A sample costs some 26 µs in a virtual machine and a fraction of that on metal. So a thread of our own spins for a
//! few short windows, every second one sampled, and the difference per sample is the cost.
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
const TARGET_SLOWDOWN: f64 = 1.025;

/// While calibrating, samples are taken this often, so that a short window has many.
const PERIOD: Nanos = Nanos(99_991);

/// Pairs of windows that are tried, and how many must be undisturbed.
const PAIRS: usize = 24;
const LEAST_PAIRS: usize = 5;
const WINDOW: Nanos = Nanos::from_millis(1);

/// Measuring ends after so long, with what there is by then.
const BUDGET: Duration = Duration::from_millis(50);

/// What one sample costs the sampled thread, measured in less than 60 ms; `None` where sampling is refused or the
/// machine was too noisy to tell.
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
    let rounds = rounds_of(WINDOW);
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
                sampled = spin(rounds);
                event.disable().ok()?;
            } else {
                plain = spin(rounds);
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
    let at = |quarter: usize| Nanos(costs[(costs.len() - 1) * quarter / 4].max(0.0) as u64);
    let (low, median, high) = (at(1), at(2), at(3));
    let [slow, fast] = [high, low].map(|cost| rate_for(Some(cost)));
    (fast <= slow.saturating_mul(3)).then_some(median)
}

/// How many rounds of [`spin`] take about `window`.
fn rounds_of(window: Nanos) -> u64 {
    const TRIAL: u64 = 200_000;
    spin(TRIAL);
    let took = spin(TRIAL).min(spin(TRIAL)).max(1.0);
    ((TRIAL as f64 * window.0 as f64 / took) as u64).clamp(TRIAL / 10, TRIAL * 100)
}

/// Keeps the processor busy; nanoseconds that it took.
fn spin(rounds: u64) -> f64 {
    let start = Instant::now();
    let mut x = 1u64;
    for i in 0..rounds {
        x = black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i));
    }
    black_box(x);
    start.elapsed().as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_keeps_the_budget() {
        for (cost, rate) in [(0, 5000), (1_000, 5000), (26_000, 938), (10_000_000, 100)] {
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
        assert_eq!(conclude(vec![26e3; 11]), Some(Nanos(26_000)));
        let noisy = [
            -90e3, -50e3, -20e3, 0.0, 9e3, 20e3, 30e3, 60e3, 90e3, 200e3, 300e3,
        ];
        assert_eq!(conclude(noisy.to_vec()), None);
        // All of these allow the highest rate.
        let cheap = [
            -900.0, -500.0, -200.0, 0.0, 90.0, 200.0, 300.0, 600.0, 900.0, 2e3, 3e3,
        ];
        assert_eq!(conclude(cheap.to_vec()), Some(Nanos(200)));
        assert_eq!(conclude(Vec::new()), None);
    }
}
