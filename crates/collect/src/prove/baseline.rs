//! What placement alone does to threads that share nothing.
//!
//! A core that runs alone may clock higher than two do, and hardware threads of one core share its units: then threads run
//! at another speed together than apart though they share no line. So two threads of our own, with nothing in common, are
//! compared with themselves just as the program's are. Work that clocks and units touch differently gives a range.
//!
//! # Caveats
//! Two kinds of work do not stand for all. Memory-bound work is not among them: what together takes less of then is part of
//! what is to be measured.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use hitm_model::Baseline;

use super::target::per_second;
use crate::machine::{Cpu, SideBySide, SystemFiles, Until, side_by_side};

/// For all windows. At most one more begins before that.
const BUDGET: Duration = Duration::from_millis(320);

/// It is watched so long whether the processors are idle, and they must be for this part of the time.
const LOOK: Duration = Duration::from_millis(60);
const IDLE: f64 = 0.7;

/// Apart, both run all the time; together, they take turns of a few milliseconds.
const APART: Duration = Duration::from_millis(5);
const TOGETHER: Duration = Duration::from_millis(20);

/// Pairs of windows of a kind of work that suffice, and without which nothing is said.
const PAIRS: usize = 5;
const LEAST_PAIRS: usize = 3;

/// The middle half of the ratios must lie this close together.
const SPREAD: f64 = 1.06;

/// Steps between two looks at the clock.
const BATCH: u64 = 512;

/// Whether nobody else uses these processors much.
pub(super) fn are_idle(files: &SystemFiles, cpus: [Cpu; 2]) -> bool {
    let idle = || {
        let stat = files.text("proc/stat")?;
        cpus.iter().map(|&cpu| idle_ticks(&stat, cpu)).sum()
    };
    let before: Option<u64> = idle();
    let started = Instant::now();
    std::thread::sleep(LOOK);
    let ticks = started.elapsed().as_secs_f64() * per_second() as f64 * cpus.len() as f64;
    let passed = idle()
        .zip(before)
        .map(|(after, before)| after.saturating_sub(before));
    passed.is_some_and(|idle| idle as f64 >= IDLE * ticks)
}

/// What `/proc/stat` says that a processor was idle since boot, in ticks: idle and waiting for disks.
fn idle_ticks(stat: &str, cpu: Cpu) -> Option<u64> {
    let name = format!("cpu{cpu}");
    let mut lines = stat.lines().map(str::split_ascii_whitespace);
    let words = lines.find_map(|mut words| (words.next() == Some(&name)).then_some(words))?;
    words
        .skip(3)
        .take(2)
        .map(|word| word.parse::<u64>().ok())
        .sum()
}

/// Measures on two processors; `None` if others used them.
pub(super) fn baseline(cpus: [Cpu; 2]) -> Option<Baseline> {
    let end = Instant::now() + BUDGET;
    let works: [fn(Until) -> u64; 2] = [arithmetic, inner_cache];
    let mut ratios = works.map(|_| Vec::new());
    let [first, second] = cpus;
    // Processors that have slept need a while to get up to speed.
    side_by_side(cpus, APART, |_, until| arithmetic(until)).ok()?;
    while Instant::now() < end && ratios.iter().any(|ratios| ratios.len() < PAIRS) {
        for (work, ratios) in works.into_iter().zip(&mut ratios) {
            let one = if ratios.len() % 2 == 0 { first } else { second };
            let apart = side_by_side(cpus, APART, |_, until| work(until)).ok()?;
            let together = side_by_side([one; 2], TOGETHER, |_, until| work(until)).ok()?;
            if apart.overlapped() && together.had_one_processor() {
                ratios.extend(speed(&together).zip(speed(&apart)).map(|(a, b)| a / b));
            }
        }
    }
    conclude(ratios.into_iter().map(middle).collect::<Option<Vec<_>>>()?)
}

/// Steps per second of own processor time, both threads' mean.
fn speed(window: &SideBySide<u64>) -> Option<f64> {
    let speeds = window.sides.each_ref().map(|side| {
        let seconds = side.cpu.as_secs_f64();
        (seconds > 0.0 && side.result > 0).then(|| side.result as f64 / seconds)
    });
    let [Some(a), Some(b)] = speeds else {
        return None;
    };
    Some(f64::midpoint(a, b))
}

/// The median of ratios that agree.
fn middle(mut ratios: Vec<f64>) -> Option<f64> {
    if ratios.len() < LEAST_PAIRS {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    let at = |quarter: usize| ratios[(ratios.len() - 1) * quarter / 4];
    (at(3) <= at(1) * SPREAD).then(|| at(2))
}

fn conclude(ratios: Vec<f64>) -> Option<Baseline> {
    let low = ratios.iter().copied().min_by(f64::total_cmp)?;
    let high = ratios.iter().copied().max_by(f64::total_cmp)?;
    Some(Baseline { low, high })
}

/// Multiplications and shifts that depend on each other.
#[inline(never)]
fn arithmetic(until: Until) -> u64 {
    let (mut state, mut done) = (1u64, 0);
    while !until.over() {
        for _ in 0..BATCH {
            state = black_box(state.wrapping_mul(6_364_136_223_846_793_005) ^ (state >> 29));
        }
        done += BATCH;
    }
    black_box(state);
    done
}

/// Loads and stores in memory that the innermost cache holds.
#[inline(never)]
fn inner_cache(until: Until) -> u64 {
    let mut words = vec![1u64; 512];
    let (mut sum, mut done) = (0u64, 0);
    while !until.over() {
        for step in 0..BATCH {
            let place = (step.wrapping_mul(37) % 512) as usize;
            sum = sum.wrapping_add(words[place]);
            words[place] = black_box(sum);
        }
        done += BATCH;
    }
    black_box(&words);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_that_do_not_agree_say_nothing() {
        assert_eq!(middle(vec![1.0, 1.01, 0.99, 1.02, 1.0]), Some(1.0));
        // A single window that was disturbed does no harm.
        assert_eq!(middle(vec![1.0, 1.01, 0.99, 3.0, 1.0]), Some(1.0));
        assert_eq!(middle(vec![1.0, 1.2, 0.8, 1.4, 1.0]), None);
        assert_eq!(middle(vec![1.0, 1.0]), None);
    }

    #[test]
    fn idle_time_is_summed() {
        let stat = "cpu  9 9 9 9 9 9\ncpu1 1 2 3 40 5 6 7 8\n";
        assert_eq!(idle_ticks(stat, Cpu(1)), Some(45));
        assert_eq!(idle_ticks(stat, Cpu(0)), None);
    }

    #[test]
    fn kinds_of_work_give_a_range() {
        let range = conclude(vec![1.1, 0.98]);
        assert_eq!(
            range,
            Some(Baseline {
                low: 0.98,
                high: 1.1
            })
        );
        assert_eq!(conclude(Vec::new()), None);
    }

    #[test]
    fn work_gets_done() {
        let cpus = crate::machine::allowed_cpus(&crate::machine::SystemFiles::of_this_machine());
        for work in [arithmetic, inner_cache] {
            let cpu = cpus[0];
            let window = side_by_side([cpu; 2], Duration::from_millis(2), |_, until| work(until));
            assert!(window.unwrap().sides.iter().all(|side| side.result > 0));
        }
    }
}
