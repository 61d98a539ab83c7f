//! Rounds in which every point runs once: noise drifts, so what is compared runs close together, and never in one order only.

use serde::{Deserialize, Serialize};

use super::points::Threads;
use crate::lots::Lots;
use crate::trial::{Disturbed, Seconds, Trial};

/// Runs the command; the command line starts processes, tests simulate.
pub trait Executor {
    /// Why a run gave nothing.
    type Failure;

    /// Runs it once with so many threads, from a fresh start.
    ///
    /// # Errors
    /// The run gave no metric: its point is left out from then on. Or nothing is to be run any more.
    fn run(&mut self, threads: Threads) -> Result<Trial, Failed<Self::Failure>>;

    /// Wall time since the beginning.
    fn spent(&self) -> Seconds;
}

/// Is told what happens, for a progress bar.
pub trait Observer<F> {
    /// A run has ended: of this round, from 0.
    fn ran(&mut self, round: usize, threads: Threads);

    /// All that was run so far. For who keeps it, should this process be killed.
    fn so_far(&mut self, _rounds: &Rounds<F>) {}
}

impl<F> Observer<F> for () {
    fn ran(&mut self, _: usize, _: Threads) {}
}

/// Why a run gave nothing.
#[derive(Clone, PartialEq, Debug)]
pub enum Failed<F> {
    /// It failed, and would again.
    Run(F),
    /// The user does not want to wait any longer.
    Interrupted,
}

/// How it is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The numbers of threads, ascending. The first is what the others are compared with.
    pub points: Vec<Threads>,
    /// Processors that the command may use.
    pub processors: usize,
    /// Runs of each point that count.
    pub rounds: usize,
    /// Runs of each point before anything counts.
    pub warm_up: usize,
    /// Runs that are repeated because others disturbed them, at most.
    pub most_repeats: usize,
    /// No new round begins after so much time.
    pub budget: Option<Seconds>,
    /// Decides about the order.
    pub seed: u64,
}

impl Plan {
    /// Points that fit the processors; only these are judged.
    pub fn fitting(&self) -> impl Iterator<Item = Threads> + '_ {
        self.points
            .iter()
            .copied()
            .filter(|threads| self.fits(*threads))
    }

    /// Whether so many threads can run at once.
    #[must_use]
    pub fn fits(&self, threads: Threads) -> bool {
        threads.0 as usize <= self.processors
    }
}

/// What was run.
#[derive(Clone, PartialEq, Debug)]
pub struct Rounds<F> {
    /// How it was to be run.
    pub plan: Plan,
    /// The points, as in the plan.
    pub points: Vec<Point<F>>,
    /// Why no more was run.
    pub ended: Ended,
}

/// The runs of one point.
#[derive(Clone, PartialEq, Debug)]
pub struct Point<F> {
    /// With so many threads.
    pub threads: Threads,
    /// All runs, also those that do not count, in the order in which they ran.
    pub runs: Vec<PointRun>,
    /// Why it was left out from some round on.
    pub failure: Option<NoValue<F>>,
}

/// One run.
#[derive(Clone, PartialEq, Debug)]
pub struct PointRun {
    /// The round, from 0.
    pub round: usize,
    /// When it ran, of all runs, from 0.
    pub position: usize,
    /// What it gave.
    pub trial: Trial,
    /// Why it does not count; empty if it does.
    pub hindered: Vec<Hindered>,
}

/// Why a point has no value.
#[derive(Clone, PartialEq, Debug)]
pub enum NoValue<F> {
    /// Its run failed.
    Failed(F),
    /// Only positive values have a ratio.
    NotPositive(f64),
}

/// Why a run does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hindered {
    /// The hypervisor gave much of the processors to others.
    Stolen,
    /// Other programs used much of the processors.
    Foreign,
    /// Threads were ready to run and waited for a processor, though there is one for each.
    Queued,
}

/// Why no more was run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// It has not.
    Running,
    /// All rounds were run.
    AllRun,
    /// The time was over.
    Budget,
    /// Too many runs were disturbed.
    Disturbed,
    /// The user interrupted.
    Interrupted,
    /// The first point failed, or all others did: there is nothing to compare.
    NothingToCompare,
}

/// Threads that have a processor each may wait for it so much of the time that they have: a monitor and the kernel's own
/// threads stay below it.
const MOST_QUEUED: f64 = 0.10;
/// And so many seconds in any case: starting and ending take turns.
const STARTING: f64 = 0.02;

impl PointRun {
    fn of(plan: &Plan, threads: Threads, round: usize, position: usize, trial: Trial) -> Self {
        let health = &trial.health;
        let mut hindered: Vec<Hindered> = health
            .disturbed()
            .into_iter()
            .map(|why| match why {
                Disturbed::Stolen => Hindered::Stolen,
                Disturbed::Foreign => Hindered::Foreign,
            })
            .collect();
        let theirs = health.wall.0 * f64::from(threads.0);
        let waited = |queued: Seconds| queued.0 > MOST_QUEUED * theirs + STARTING;
        if plan.fits(threads) && health.queued.is_some_and(waited) {
            hindered.push(Hindered::Queued);
        }
        Self {
            round,
            position,
            trial,
            hindered,
        }
    }

    /// Whether it counts.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.hindered.is_empty()
    }
}

impl<F> Point<F> {
    /// The runs that count.
    pub fn counted(&self) -> impl Iterator<Item = &PointRun> {
        self.runs.iter().filter(|run| run.counts())
    }

    /// What it gave in a round, if that counts.
    pub(super) fn value_in(&self, round: usize) -> Option<f64> {
        let run = self.counted().find(|run| run.round == round);
        run.map(|run| run.trial.value)
    }
}

/// Runs all rounds.
pub fn measure<E: Executor>(
    plan: Plan,
    executor: &mut E,
    observer: &mut impl Observer<E::Failure>,
) -> Rounds<E::Failure> {
    let point = |threads: &Threads| Point {
        threads: *threads,
        runs: Vec::new(),
        failure: None,
    };
    let mut rounds = Rounds {
        points: plan.points.iter().map(point).collect(),
        plan,
        ended: Ended::Running,
    };
    rounds.ended = match rounds.all(executor, observer) {
        Ok(()) => Ended::AllRun,
        Err(ended) => ended,
    };
    rounds
}

impl<F> Rounds<F> {
    fn all<E: Executor<Failure = F>>(
        &mut self,
        executor: &mut E,
        observer: &mut impl Observer<F>,
    ) -> Result<(), Ended> {
        for _ in 0..self.plan.warm_up {
            for at in 0..self.points.len() {
                self.trial(at, executor)?;
            }
        }
        let mut lots = Lots::new(self.plan.seed);
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        let mut repeats = 0;
        let mut position = 0;
        for round in 0..self.plan.rounds {
            if self
                .plan
                .budget
                .is_some_and(|budget| executor.spent() >= budget)
            {
                return Err(Ended::Budget);
            }
            // Every second round is the one before backwards: who runs early in one runs late in the other.
            if round % 2 == 0 {
                lots.shuffle(&mut order);
            } else {
                order.reverse();
            }
            let mut left = order.clone();
            while !left.is_empty() {
                // What others disturbed comes again when all else of the round has run: they may be gone by then.
                let mut again = Vec::new();
                for at in left {
                    let Some(trial) = self.trial(at, executor)? else {
                        continue;
                    };
                    let threads = self.points[at].threads;
                    let run = PointRun::of(&self.plan, threads, round, position, trial);
                    position += 1;
                    // Nothing follows from points that take turns, so they are not waited for.
                    let done = run.counts() || !self.plan.fits(threads);
                    self.points[at].runs.push(run);
                    observer.so_far(self);
                    if done {
                        observer.ran(round, threads);
                    } else if repeats == self.plan.most_repeats {
                        return Err(Ended::Disturbed);
                    } else {
                        repeats += 1;
                        again.push(at);
                    }
                }
                left = again;
            }
        }
        Ok(())
    }

    /// Runs a point, unless it has failed before; whether there is something to compare afterwards.
    fn trial<E: Executor<Failure = F>>(
        &mut self,
        at: usize,
        executor: &mut E,
    ) -> Result<Option<Trial>, Ended> {
        let point = &mut self.points[at];
        if point.failure.is_some() {
            return Ok(None);
        }
        point.failure = Some(match executor.run(point.threads) {
            Ok(trial) if trial.value.is_finite() && trial.value > 0.0 => return Ok(Some(trial)),
            Ok(trial) => NoValue::NotPositive(trial.value),
            Err(Failed::Run(failure)) => NoValue::Failed(failure),
            Err(Failed::Interrupted) => return Err(Ended::Interrupted),
        });
        let left = self.points.iter().filter(|point| point.failure.is_none());
        if at == 0 || left.count() < 2 {
            return Err(Ended::NothingToCompare);
        }
        Ok(None)
    }

    /// The values of two points in the rounds in which both count.
    pub(super) fn pairs(&self, a: usize, b: usize) -> Vec<(f64, f64)> {
        let (a, b) = (&self.points[a], &self.points[b]);
        (0..self.plan.rounds)
            .filter_map(|round| Some((a.value_in(round)?, b.value_in(round)?)))
            .collect()
    }
}
