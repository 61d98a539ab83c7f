//! How many transactions ahead a worker fetches rows: tried out while it works.
//!
//! Far ahead pays where rows come from memory, and costs where they are in a cache already; which it is depends on the log
//! and changes with it. A worker compares its present distance with the next shorter or longer one in short epochs that
//! take turns, and changes over if the other was faster in most pairs of epochs. Between two such trials it rests, so
//! that a wrong guess costs a few of a hundred transactions. What is executed, and in which order, does not depend on it.
//!
//! # Caveats
//! An epoch is timed by the wall clock: one in which the worker lost its core counts against its distance. That is why pairs
//! are counted and not times added.

use std::time::{Duration, Instant};

/// Distances to choose from.
const DISTANCES: [u64; 5] = [0, 2, 4, 8, 16];
/// The place of the first one.
const FIRST: usize = 1;
/// Transactions that are not timed after a change: their rows were fetched at the distance before.
const SETTLING: u32 = 16;
/// Transactions that are timed.
const TIMED: u32 = 112;
/// Pairs of epochs in a trial.
const PAIRS: u32 = 12;
/// Pairs that the other distance must win: by chance, that many come about in 7 of 100 trials of equals, which does no harm.
const WINS: u32 = 9;
/// Transactions between two trials: few at first, and after each trial without a change twice as many.
const SHORTEST_REST: u32 = 1_000;
const LONGEST_REST: u32 = 64_000;

/// How a worker chooses its distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lookahead {
    /// Always this one.
    Fixed(u64),
    /// What turns out to be fastest.
    Found,
}

/// What one worker knows of its distance.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The distance at the moment.
    now: u64,
    /// Transactions until the next step.
    left: u32,
    step: Step,
    /// The chosen distance's place.
    chosen: usize,
    /// Transactions until the next trial, if this one changes nothing.
    rest: u32,
    /// Whether the next trial is of a longer distance.
    longer: bool,
    trial: Trial,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// There is nothing to choose.
    Never,
    Resting,
    Settling,
    Timing(Instant),
}

#[derive(Clone, Copy, Default, Debug)]
struct Trial {
    /// The place of the distance that is tried out.
    other: usize,
    /// Epochs so far.
    epochs: u32,
    /// What the first of the present pair took.
    first: Duration,
    wins: u32,
}

impl Pace {
    pub(crate) fn new(lookahead: Lookahead) -> Self {
        let (now, step) = match lookahead {
            Lookahead::Fixed(n) => (n, Step::Never),
            // The model checkers' schedules must not depend on a clock.
            Lookahead::Found if cfg!(any(loom, shuttle, miri)) => (DISTANCES[FIRST], Step::Never),
            Lookahead::Found => (DISTANCES[FIRST], Step::Resting),
        };
        Self {
            now,
            left: 4 * TIMED,
            step,
            chosen: FIRST,
            rest: SHORTEST_REST,
            longer: true,
            trial: Trial::default(),
        }
    }

    /// How many transactions ahead to fetch rows now.
    #[inline(always)]
    pub(crate) fn lookahead(&self) -> u64 {
        self.now
    }

    /// The distance that is chosen so far, whatever is being tried out.
    pub(crate) fn chosen(&self) -> u64 {
        match self.step {
            Step::Never => self.now,
            _ => DISTANCES[self.chosen],
        }
    }

    /// A transaction has ended.
    #[inline(always)]
    pub(crate) fn tick(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.next_step();
        }
    }

    /// The worker has nothing to do: the time of this epoch says nothing.
    pub(crate) fn pause(&mut self) {
        if let Step::Timing(_) = self.step {
            self.settle();
        }
    }

    #[cold]
    fn next_step(&mut self) {
        match self.step {
            Step::Never => self.left = u32::MAX,
            Step::Resting => {
                let last = DISTANCES.len() - 1;
                if self.chosen == 0 || self.chosen == last {
                    self.longer = self.chosen == 0;
                }
                let other = if self.longer {
                    self.chosen + 1
                } else {
                    self.chosen - 1
                };
                self.trial = Trial {
                    other,
                    ..Trial::default()
                };
                self.settle();
            }
            Step::Settling => {
                self.step = Step::Timing(Instant::now());
                self.left = TIMED;
            }
            Step::Timing(began) => self.end_epoch(began.elapsed()),
        }
    }

    /// Begins the trial's present epoch. Of each pair, the other distance is first every second time.
    fn settle(&mut self) {
        let tries = self.is_of_other();
        self.now = DISTANCES[if tries { self.trial.other } else { self.chosen }];
        self.step = Step::Settling;
        self.left = SETTLING;
    }

    fn is_of_other(&self) -> bool {
        matches!(self.trial.epochs % 4, 1 | 2)
    }

    fn end_epoch(&mut self, took: Duration) {
        let of_other = self.is_of_other();
        self.trial.epochs += 1;
        if self.trial.epochs % 2 == 1 {
            self.trial.first = took;
        } else {
            let (other, chosen) = if of_other {
                (took, self.trial.first)
            } else {
                (self.trial.first, took)
            };
            self.trial.wins += u32::from(other < chosen);
        }
        if self.trial.epochs < 2 * PAIRS {
            self.settle();
        } else {
            self.end_trial();
        }
    }

    fn end_trial(&mut self) {
        self.step = Step::Resting;
        if self.trial.wins >= WINS {
            // On in the same direction at once.
            self.chosen = self.trial.other;
            self.left = TIMED;
            self.rest = SHORTEST_REST;
        } else {
            self.longer = !self.longer;
            self.left = self.rest;
            self.rest = (2 * self.rest).min(LONGEST_REST);
        }
        self.now = DISTANCES[self.chosen];
    }
}

#[cfg(all(test, not(any(loom, shuttle, miri))))]
mod tests {
    use super::*;

    /// Ends the epochs of whole trials with times that depend on the distance.
    fn run(pace: &mut Pace, nanos: impl Fn(u64) -> u64) {
        let mut changes = 0;
        while changes < 40 {
            match pace.step {
                Step::Timing(_) => pace.end_epoch(Duration::from_nanos(nanos(pace.now))),
                _ => pace.next_step(),
            }
            changes += u32::from(pace.step == Step::Resting);
        }
    }

    #[test]
    fn the_fastest_distance_is_found_from_either_side_and_again_after_a_change() {
        let mut pace = Pace::new(Lookahead::Found);
        run(&mut pace, |distance| 1000 - 10 * distance);
        assert_eq!(pace.chosen(), 16);
        run(&mut pace, |distance| 500 + distance);
        assert_eq!(pace.chosen(), 0);
        run(&mut pace, |distance| 100 + distance.abs_diff(4));
        assert_eq!(pace.chosen(), 4);
    }

    #[test]
    fn equals_are_not_changed() {
        let mut pace = Pace::new(Lookahead::Found);
        run(&mut pace, |_| 7);
        assert_eq!(pace.chosen(), DISTANCES[FIRST]);
    }

    #[test]
    fn a_fixed_distance_stays() {
        let mut pace = Pace::new(Lookahead::Fixed(5));
        for _ in 0..100_000 {
            pace.tick();
        }
        pace.pause();
        assert_eq!((pace.lookahead(), pace.chosen()), (5, 5));
    }
}
