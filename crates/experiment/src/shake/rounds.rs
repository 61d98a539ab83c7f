//! Rounds: in each, every layout runs once.
//!
//! What drifts on the machine (temperature, others' work) meets all layouts alike: the order within a round is drawn by
//! lot, and the next round has it backwards, so that over two rounds each layout is as early as it is late.

use crate::lots::Lots;
use crate::median::seen;
use crate::ratio::LogRatio;
use crate::trial::{Seconds, Trial};

/// One of the things that run in each round.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Arm {
    /// The build as it is: what all others are compared with.
    Base,
    /// The same once more: what this machine makes of no difference.
    BaseAgain,
    /// A variant, by its number from 0.
    Variant(usize),
}

/// Runs layouts; the command line starts processes, tests simulate.
pub trait Runner {
    /// Why a run gave nothing.
    type Failure: Clone;

    /// Runs a layout once, from a fresh start.
    ///
    /// # Errors
    /// The run gave no metric, or was interrupted.
    fn run(&mut self, arm: Arm) -> Result<Trial, Self::Failure>;

    /// Whether nothing more is to be run: the user interrupted.
    fn is_stopped(&self) -> bool;

    /// Wall time since the measurement began.
    fn spent(&self) -> Seconds;
}

/// Is told what happens, for a progress bar.
pub trait Watcher<F> {
    /// A run has ended.
    fn ran(&mut self, round: usize, arm: Arm);

    /// All that was run so far. For who keeps it, should this process be killed.
    fn so_far(&mut self, _rounds: &Rounds<F>) {}
}

impl<F> Watcher<F> for () {
    fn ran(&mut self, _: usize, _: Arm) {}
}

/// How it is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// How many rounds.
    pub rounds: usize,
    /// How many variants.
    pub variants: usize,
    /// Runs of the base before anything counts.
    pub warm_up: usize,
    /// Disturbed runs that are repeated, at most, of all together.
    pub most_repeats: usize,
    /// Disturbed runs count as others do, and are not repeated: the metric does not depend on what else runs.
    pub count_disturbed: bool,
    /// No new round begins after so much time.
    pub budget: Option<Seconds>,
    /// Decides about the order.
    pub seed: u64,
}

/// What was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Rounds<F> {
    /// The plan.
    pub plan: Plan,
    /// Per round, per arm (base, base again, the variants): its runs; all but the last were disturbed and repeated.
    pub rounds: Vec<Vec<Vec<Trial>>>,
    /// How each variant ended.
    pub arms: Vec<ArmEnded<F>>,
    /// Why no more was run.
    pub ended: Ended<F>,
}

/// How a variant ended.
#[derive(Clone, PartialEq, Debug)]
pub enum ArmEnded<F> {
    /// It ran in every round.
    Ran,
    /// It failed once, and was not run again.
    Failed(F),
}

/// Why no more was run.
#[derive(Clone, PartialEq, Debug)]
pub enum Ended<F> {
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
    /// The base failed.
    Failed(F),
}

/// Measures all layouts.
pub fn measure<R: Runner>(
    plan: Plan,
    runner: &mut R,
    watcher: &mut impl Watcher<R::Failure>,
) -> Rounds<R::Failure> {
    let mut rounds = Rounds {
        arms: vec![ArmEnded::Ran; plan.variants],
        plan,
        rounds: Vec::new(),
        ended: Ended::Running,
    };
    rounds.ended = match rounds.all(runner, watcher) {
        Ok(()) => Ended::AllRun,
        Err(ended) => ended,
    };
    rounds
}

impl<F: Clone> Rounds<F> {
    fn all<R: Runner<Failure = F>>(
        &mut self,
        runner: &mut R,
        watcher: &mut impl Watcher<F>,
    ) -> Result<(), Ended<F>> {
        for _ in 0..self.plan.warm_up {
            one(runner, Arm::Base)?;
        }
        let mut lots = Lots::new(self.plan.seed);
        let mut order: Vec<Arm> = Arm::all(self.plan.variants).collect();
        let mut repeats_left = self.plan.most_repeats;
        for round in 0..self.plan.rounds {
            if self.plan.budget.is_some_and(|most| runner.spent() >= most) {
                return Err(Ended::Budget);
            }
            match round % 2 {
                0 => lots.shuffle(&mut order),
                _ => order.reverse(),
            }
            self.rounds.push(vec![Vec::new(); order.len()]);
            for &arm in &order {
                self.arm(arm, runner, &mut repeats_left)?;
                watcher.ran(round, arm);
                watcher.so_far(self);
            }
        }
        Ok(())
    }

    /// Runs one arm of the last round until it is undisturbed.
    fn arm<R: Runner<Failure = F>>(
        &mut self,
        arm: Arm,
        runner: &mut R,
        repeats_left: &mut usize,
    ) -> Result<(), Ended<F>> {
        loop {
            if self.failure(arm).is_some() {
                return Ok(());
            }
            let trial = match (one(runner, arm), arm) {
                (Ok(trial), _) => trial,
                (Err(Ended::Failed(why)), Arm::Variant(number)) => {
                    self.arms[number] = ArmEnded::Failed(why);
                    return Ok(());
                }
                (Err(ended), _) => return Err(ended),
            };
            let disturbed = !self.counts(&trial);
            if let Some(round) = self.rounds.last_mut() {
                round[arm.place()].push(trial);
            }
            match (disturbed, *repeats_left) {
                (false, _) => return Ok(()),
                (true, 0) => return Err(Ended::Disturbed),
                (true, left) => *repeats_left = left - 1,
            }
        }
    }

    fn failure(&self, arm: Arm) -> Option<&F> {
        match arm {
            Arm::Variant(number) => match self.arms.get(number) {
                Some(ArmEnded::Failed(why)) => Some(why),
                _ => None,
            },
            Arm::Base | Arm::BaseAgain => None,
        }
    }

    /// The undisturbed runs of an arm, by their rounds.
    pub fn trials(&self, arm: Arm) -> impl Iterator<Item = (usize, &Trial)> {
        let rounds = self.rounds.iter().enumerate();
        rounds.filter_map(move |(number, round)| {
            let last = round.get(arm.place())?.last()?;
            self.counts(last).then_some((number, last))
        })
    }

    fn counts(&self, trial: &Trial) -> bool {
        self.plan.count_disturbed || trial.health.disturbed().is_empty()
    }

    /// Log ratios of an arm to the base of the same round.
    #[must_use]
    pub fn differences(&self, arm: Arm) -> Vec<LogRatio> {
        let base = |round| self.trials(Arm::Base).find(|(number, _)| *number == round);
        self.trials(arm)
            .filter_map(|(round, trial)| LogRatio::of(base(round)?.1.value, trial.value))
            .collect()
    }

    /// Runs that were disturbed; they do not count, unless the plan says so.
    #[must_use]
    pub fn disturbed(&self) -> usize {
        let all = self.rounds.iter().flatten().flatten();
        all.filter(|trial| !trial.health.disturbed().is_empty())
            .count()
    }

    /// Processors that the base used on average, the median over its runs.
    #[must_use]
    pub fn overlap(&self) -> Option<f64> {
        let base = self.trials(Arm::Base);
        seen(base.map(|(_, trial)| trial.health.overlap()))
    }
}

impl Arm {
    /// All arms, in the order of their places.
    pub fn all(variants: usize) -> impl Iterator<Item = Self> {
        [Self::Base, Self::BaseAgain]
            .into_iter()
            .chain((0..variants).map(Self::Variant))
    }

    /// Where its runs are in a round.
    #[must_use]
    pub fn place(self) -> usize {
        match self {
            Self::Base => 0,
            Self::BaseAgain => 1,
            Self::Variant(number) => number + 2,
        }
    }
}

fn one<R: Runner>(runner: &mut R, arm: Arm) -> Result<Trial, Ended<R::Failure>> {
    if runner.is_stopped() {
        return Err(Ended::Interrupted);
    }
    runner.run(arm).map_err(|why| match runner.is_stopped() {
        true => Ended::Interrupted,
        false => Ended::Failed(why),
    })
}
