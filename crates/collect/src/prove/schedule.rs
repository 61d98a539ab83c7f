//! Which windows there are, in which order, and where each thread is in them.
//!
//! Windows come in pairs, one apart and one together, in random order within the pair: whatever drifts over time
//! favours neither, and no program keeps step with it. Apart, the threads change places from pair to pair; together, they
//! are on each of the processors in turn: what one processor is better at than another evens out.

use std::time::Duration;

use hitm_model::{Nanos, Placement};

use crate::machine::Cpu;

/// Threads that were just moved find their caches and clocks changed; this much is not measured.
pub(super) const SETTLE: Nanos = Nanos::from_millis(10);

/// Windows of each placement, how long each is, and how long all of them take, where the user does not say.
const WINDOWS: u32 = 8;
const LENGTH: Nanos = Nanos::from_millis(150);
const BUDGET: Nanos = Nanos::from_millis(5000);

/// Fewer of each placement say nothing.
pub(super) const LEAST: u32 = 4;

/// Windows of a group to come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Slot {
    pub(super) placement: Placement,
    /// Where each thread is.
    pub(super) cpus: Vec<Cpu>,
}

/// The windows of a group of `n_threads` threads, in order: `n_pairs` of each placement. There is a processor for each
/// thread.
pub(super) fn schedule(n_threads: usize, cpus: &[Cpu], n_pairs: u32, seed: u64) -> Vec<Slot> {
    let mut random = Random(seed);
    let mut slots = Vec::new();
    if cpus.is_empty() {
        return slots;
    }
    for pair in 0..n_pairs as usize {
        let on = |cpu: usize| cpus[cpu % cpus.len()];
        let apart = Slot {
            placement: Placement::Apart,
            cpus: (0..n_threads).map(|thread| on(thread + pair)).collect(),
        };
        let together = Slot {
            placement: Placement::Together,
            cpus: vec![on(pair); n_threads],
        };
        if random.coin() {
            slots.extend([apart, together]);
        } else {
            slots.extend([together, apart]);
        }
    }
    slots
}

/// How long a window is: together, each of the threads has only its part of the time.
pub(super) fn length_of(placement: Placement, n_threads: usize, length: Nanos) -> Nanos {
    match placement {
        Placement::Apart => length,
        Placement::Together => Nanos((length.0.saturating_mul(n_threads as u64) / 2).max(length.0)),
    }
}

/// SplitMix64: good enough to toss coins.
struct Random(u64);

impl Random {
    fn coin(&mut self) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & 1 == 1
    }
}

/// How many windows are to be had, and how long they may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Of each placement.
    pub(super) windows: u32,
    pub(super) length: Nanos,
    /// Whether the user said how many.
    asked: bool,
    budget: Nanos,
}

impl Plan {
    /// What the user said, and for the rest what is usual. More or longer windows than usual get more time than usual, so
    /// that as many groups have theirs; so does a group that is tried on several (`kinds`) kinds of core pairs.
    pub(super) fn new(
        windows: Option<u32>,
        length: Option<Duration>,
        budget: Option<Duration>,
        kinds: usize,
    ) -> Self {
        let mut plan = Self {
            windows: windows.unwrap_or(WINDOWS).max(1),
            length: length.map_or(LENGTH, Nanos::from),
            asked: windows.is_some(),
            budget: BUDGET,
        };
        plan.budget = budget.map_or_else(
            || {
                let usual = pair_cost(2, LENGTH) * u64::from(WINDOWS);
                let wanted = pair_cost(2, plan.length).saturating_mul(plan.windows.into());
                let scaled = u128::from(BUDGET.0) * u128::from(wanted) / u128::from(usual);
                let scaled = u64::try_from(scaled).unwrap_or(u64::MAX).max(BUDGET.0);
                Nanos(scaled.saturating_mul(kinds.max(1) as u64))
            },
            Nanos::from,
        );
        plan
    }

    /// How many windows of each placement a group of `n_threads` threads gets after `spent` of the time; 0: none at all. The
    /// first group gets some in any case.
    pub(super) fn afford(&self, n_threads: usize, spent: Nanos, first: bool) -> u32 {
        let left = self.budget.since(spent).0;
        let pairs = left / pair_cost(n_threads, self.length).max(1);
        let pairs = u32::try_from(pairs).unwrap_or(u32::MAX).min(self.windows);
        let least = LEAST.min(self.windows);
        if pairs >= least {
            pairs
        } else if first {
            least
        } else {
            0
        }
    }

    /// How many windows of each placement the recording says were planned for a group that gets so many. What the user
    /// asked for is not made less in silence.
    pub(super) const fn planned(&self, afforded: u32) -> u32 {
        if self.asked || afforded == 0 {
            self.windows
        } else {
            afforded
        }
    }

    /// How long so many pairs of windows take.
    pub(super) fn cost(&self, n_threads: usize, pairs: u32) -> Nanos {
        Nanos(pair_cost(n_threads, self.length).saturating_mul(pairs.into()))
    }
}

/// How long a window of each placement takes, in nanoseconds.
fn pair_cost(n_threads: usize, length: Nanos) -> u64 {
    [Placement::Apart, Placement::Together]
        .map(|placement| length_of(placement, n_threads, length).0)
        .into_iter()
        .fold(2 * SETTLE.0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(n: u32) -> Vec<Cpu> {
        (0..n).map(|cpu| Cpu(10 + cpu)).collect()
    }

    #[test]
    fn every_pair_has_both_placements_and_every_thread_is_everywhere() {
        for (n, pairs, seed) in [(2, 8, 1), (2, 4, 2), (3, 6, 3), (4, 8, u64::MAX)] {
            let cpus = cpus(n);
            let slots = schedule(n as usize, &cpus, pairs, seed);
            assert_eq!(slots.len(), 2 * pairs as usize);
            for pair in slots.chunks(2) {
                assert_ne!(pair[0].placement, pair[1].placement);
            }
            let of = |placement| slots.iter().filter(move |slot| slot.placement == placement);
            for slot in of(Placement::Apart) {
                let mut places = slot.cpus.clone();
                places.sort();
                assert_eq!(places, cpus, "each on its own");
            }
            for slot in of(Placement::Together) {
                assert!(slot.cpus.iter().all(|cpu| *cpu == slot.cpus[0]));
            }
            for placement in [Placement::Apart, Placement::Together] {
                for thread in 0..n as usize {
                    for cpu in &cpus {
                        let times = of(placement).filter(|slot| slot.cpus[thread] == *cpu);
                        let even = pairs / n..=pairs.div_ceil(n);
                        assert!(even.contains(&(times.count() as u32)), "{placement:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_order_is_random_and_its_seed_decides_it() {
        let order = |seed| {
            let slots = schedule(2, &cpus(2), 64, seed);
            let apart_first = slots
                .chunks(2)
                .map(|it| it[0].placement == Placement::Apart);
            apart_first.collect::<Vec<_>>()
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        for seed in 0..20 {
            let apart_first = order(seed).into_iter().filter(|&first| first).count();
            assert!((16..=48).contains(&apart_first), "{apart_first} of 64");
        }
        assert!(schedule(2, &[], 8, 1).is_empty());
    }

    #[test]
    fn more_threads_on_one_processor_get_more_time() {
        let length = |n| length_of(Placement::Together, n, Nanos(100)).0;
        assert_eq!([2, 3, 4].map(length), [100, 150, 200]);
        assert_eq!(length_of(Placement::Apart, 4, Nanos(100)).0, 100);
    }

    #[test]
    fn groups_get_what_the_time_allows() {
        let millis = |millis| Some(Duration::from_millis(millis));
        let usual = Plan::new(None, None, None, 1);
        let at = |plan: Plan, n, spent, first| plan.afford(n, Nanos::from_millis(spent), first);
        assert_eq!(at(usual, 2, 0, true), 8);
        assert_eq!(at(usual, 2, 2560, false), 7);
        assert_eq!(at(usual, 2, 3700, false), 4);
        assert_eq!(at(usual, 2, 3800, false), 0);
        // Four threads together take twice as long.
        assert_eq!(at(usual, 4, 2560, false), 5);

        let many = Plan::new(Some(32), None, None, 1);
        assert_eq!(at(many, 2, 0, true), 32);
        assert!(at(many, 2, many.cost(2, 32).0 / 1_000_000, false) >= 16);
        let long = Plan::new(None, millis(1000), None, 1);
        assert_eq!(at(long, 2, 0, true), 8);
        // What the user allows is what there is, but for the first.
        let short = Plan::new(Some(32), None, millis(3200), 1);
        assert_eq!(at(short, 2, 0, true), 10);
        let none = Plan::new(None, None, millis(1), 1);
        assert_eq!((at(none, 2, 0, true), at(none, 2, 0, false)), (4, 0));
        let few = Plan::new(Some(2), None, millis(1), 1);
        assert_eq!(at(few, 2, 0, true), 2);
        let kinds = Plan::new(None, None, None, 4);
        assert_eq!(at(kinds, 2, 3 * 2560, false), 8);
    }
}
