//! One row of a suite: runs both sides in pairs until the result is clear.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::judge::{Better, Estimate, Outcome, estimate, outcome};
use crate::looks::{ERROR, Looks};
use crate::median::seen;
use crate::order::Order;
use crate::ratio::LogRatio;
use crate::signed_rank::Walsh;
use crate::trial::{Busiest, Pair, Seconds, Side, Trial};

/// Runs the sides; the command line starts processes, tests simulate.
pub trait Executor {
    /// Why a run gave nothing.
    type Failure;

    /// Runs a side once, from a fresh start.
    ///
    /// # Errors
    /// The run gave no metric, or was interrupted: the row ends, with what was measured so far.
    fn run(&mut self, side: Side, purpose: Purpose) -> Result<Trial, Self::Failure>;

    /// Wall time since the row began, all that belongs to it included.
    fn spent(&self) -> Seconds;
}

/// What a run is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Fills caches; its value is not looked at.
    WarmUp,
    /// A against itself: what this machine makes of no difference.
    Noise,
    /// The comparison.
    Pair,
}

/// Is told what happens, for a progress bar.
pub trait Observer {
    /// A pair has ended; the log ratios of all pairs of this kind so far, to look at, not to decide by.
    fn pair(&mut self, purpose: Purpose, differences: &[LogRatio]);

    /// All that was measured so far, disturbed pairs too: of A against itself, and of the comparison. For who keeps it, should
    /// this process be killed.
    fn so_far(&mut self, _noise: &[Pair], _pairs: &[Pair]) {}
}

impl Observer for () {
    fn pair(&mut self, _: Purpose, _: &[LogRatio]) {}
}

/// The floor of effects: smaller ones are not worth a word.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Floor {
    /// What the user asked for.
    Fixed(LogRatio),
    /// As much as A differed from itself on this machine, but at least this.
    AtLeast(LogRatio),
}

/// How a row is run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// When it is looked at.
    pub looks: Looks,
    /// Which values are good.
    pub better: Better,
    /// Effects below it do not count.
    pub floor: Floor,
    /// Runs of each side before anything counts.
    pub warm_up: usize,
    /// Pairs of A against itself.
    pub noise_pairs: usize,
    /// Disturbed pairs that are run again, at most.
    pub most_repeats: usize,
    /// No new pair begins after so much time.
    pub budget: Option<Seconds>,
    /// Decides which side runs first.
    pub seed: u64,
}

/// A row as it ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row<F> {
    /// How it was to be run.
    pub plan: Plan,
    /// Pairs of A against itself, also disturbed ones.
    pub noise: Vec<Pair>,
    /// All pairs, also disturbed ones, in the order in which they ran.
    pub pairs: Vec<Pair>,
    /// The floor that was used.
    pub floor: LogRatio,
    /// What the last look saw.
    pub estimate: Option<Estimate>,
    /// Why no more was run.
    pub ended: Ended<F>,
}

/// Why a row ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended<F> {
    /// It has not ended: this is what was measured so far.
    Running,
    /// A look decided.
    Decided,
    /// All pairs were run.
    AllRun,
    /// The plan permits no look: too few pairs, or too many rows for so few pairs.
    NoLook,
    /// The time was over.
    Budget,
    /// Too many pairs were disturbed.
    Disturbed,
    /// The metric cannot be compared.
    Unusable(Unusable),
    /// A run failed.
    Failed {
        /// Which side's.
        side: Side,
        /// How.
        failure: F,
    },
}

/// Why values cannot be compared.
#[derive(Clone, Copy, PartialEq, Debug, Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unusable {
    /// Ratios need positive values.
    #[error("the metric of {side:?} is {value}: only positive values have a ratio")]
    NotPositive {
        /// Whose.
        side: Side,
        /// What it was.
        value: f64,
    },
    /// Steps of the metric are larger than the effects that count.
    #[error("the metric has steps of {step} at {value}: too coarse for the floor")]
    Coarse {
        /// The least difference between two different values.
        step: f64,
        /// The median value.
        value: f64,
    },
}

/// A thread that runs so much of the time does not wait for anybody.
const AT_ITS_LIMIT: f64 = 0.95;

/// Runs a row.
pub fn run<E: Executor>(
    plan: Plan,
    executor: &mut E,
    observer: &mut impl Observer,
) -> Row<E::Failure> {
    let mut row = Row {
        floor: plan.floor.at_least(),
        plan,
        noise: Vec::new(),
        pairs: Vec::new(),
        estimate: None,
        ended: Ended::AllRun,
    };
    row.ended = match row.phases(executor, observer) {
        Ok(ended) | Err(ended) => ended,
    };
    row
}

impl<F> Row<F> {
    fn phases<E: Executor<Failure = F>>(
        &mut self,
        executor: &mut E,
        observer: &mut impl Observer,
    ) -> Result<Ended<F>, Ended<F>> {
        if self.plan.looks.most_pairs() == 0 {
            return Err(Ended::NoLook);
        }
        let mut order = Order::new(self.plan.seed);
        for _ in 0..self.plan.warm_up {
            for side in [Side::A, Side::B] {
                trial(executor, side, Purpose::WarmUp)?;
            }
        }
        self.noise(executor, observer, &mut order)?;
        self.compare(executor, observer, &mut order)
    }

    /// A against itself.
    fn noise<E: Executor<Failure = F>>(
        &mut self,
        executor: &mut E,
        observer: &mut impl Observer,
        order: &mut Order,
    ) -> Result<(), Ended<F>> {
        for _ in 0..self.plan.noise_pairs {
            let first = order.next_first();
            let one = trial(executor, Side::A, Purpose::Noise)?;
            let other = trial(executor, Side::A, Purpose::Noise)?;
            let (a, b) = match first {
                Side::A => (one, other),
                Side::B => (other, one),
            };
            self.noise.push(Pair { first, a, b });
            observer.so_far(&self.noise, &self.pairs);
            observer.pair(Purpose::Noise, &self.noise_differences());
        }
        let noise = Walsh::of(&self.noise_differences()).estimate();
        self.floor = self.plan.floor.given(noise);
        Ok(())
    }

    /// A against B, until a look decides.
    fn compare<E: Executor<Failure = F>>(
        &mut self,
        executor: &mut E,
        observer: &mut impl Observer,
        order: &mut Order,
    ) -> Result<Ended<F>, Ended<F>> {
        let mut repeats = 0;
        let mut first = order.next_first();
        loop {
            if self
                .plan
                .budget
                .is_some_and(|budget| executor.spent() >= budget)
            {
                return Ok(Ended::Budget);
            }
            let one = trial(executor, first, Purpose::Pair)?;
            let other = trial(executor, first.other(), Purpose::Pair)?;
            let (a, b) = match first {
                Side::A => (one, other),
                Side::B => (other, one),
            };
            let pair = Pair { first, a, b };
            let disturbed = !pair.disturbed().is_empty();
            let unusable = not_positive(&pair);
            self.pairs.push(pair);
            observer.so_far(&self.noise, &self.pairs);
            if let Some(why) = unusable {
                return Err(Ended::Unusable(why));
            }
            if disturbed {
                if repeats == self.plan.most_repeats {
                    return Ok(Ended::Disturbed);
                }
                // The same order again: the orders stay balanced.
                repeats += 1;
                continue;
            }
            first = order.next_first();
            let differences = self.differences();
            observer.pair(Purpose::Pair, &differences);
            if let Some(ended) = self.look(&differences) {
                return Ok(ended);
            }
        }
    }

    /// Looks, if a look is due.
    fn look(&mut self, differences: &[LogRatio]) -> Option<Ended<F>> {
        let look = self.plan.looks.at(differences.len())?;
        if let Some(why) = self.coarse() {
            return Some(Ended::Unusable(why));
        }
        self.estimate = Some(estimate(differences, look, self.estimate.as_ref()));
        // To stop early, a row must be clear by the strictest of the limits that the suite may ask for in the end.
        let strictest = ERROR / self.plan.looks.rows() as f64;
        match self.outcome(strictest) {
            Outcome::Undecided { .. } if look.pairs == self.plan.looks.most_pairs() => {
                Some(Ended::AllRun)
            }
            Outcome::Undecided { .. } => None,
            _ => Some(Ended::Decided),
        }
    }

    /// The outcome if the row may be wrong with this probability.
    #[must_use]
    pub fn outcome(&self, error: f64) -> Outcome {
        match &self.estimate {
            Some(estimate) => outcome(
                estimate,
                self.floor,
                self.plan.better,
                error,
                &self.plan.looks,
            ),
            None => Outcome::Undecided { more_pairs: None },
        }
    }

    /// Log ratios of the pairs that count.
    #[must_use]
    pub fn differences(&self) -> Vec<LogRatio> {
        differences(&self.pairs)
    }

    /// Log ratios of A against itself.
    #[must_use]
    pub fn noise_differences(&self) -> Vec<LogRatio> {
        differences(&self.noise)
    }

    /// Pairs that do not count because something else disturbed them.
    #[must_use]
    pub fn disturbed(&self) -> usize {
        let disturbed = |pair: &&Pair| !pair.disturbed().is_empty();
        self.pairs.iter().filter(disturbed).count()
    }

    /// The median of a side's runs that count; `None` of none.
    #[must_use]
    pub fn median(&self, side: Side) -> Option<f64> {
        let counted = self.pairs.iter().filter(|pair| pair.disturbed().is_empty());
        seen(counted.map(|pair| pair.trial(side).value))
    }

    /// The side whose client was at its limit while the server was not, and how busy both were, if there is one: medians of
    /// the runs that count.
    #[must_use]
    pub fn saturated_client(&self) -> Option<(Side, Busiest)> {
        let of = |side: Side| -> Option<(Side, Busiest)> {
            let counted = self.pairs.iter().filter(|pair| pair.disturbed().is_empty());
            let busiest: Vec<Busiest> = counted
                .filter_map(|pair| pair.trial(side).health.busiest)
                .collect();
            let client = seen(busiest.iter().map(|both| both.client))?;
            let server = seen(busiest.iter().map(|both| both.server))?;
            let saturated = client >= AT_ITS_LIMIT && server < AT_ITS_LIMIT;
            saturated.then_some((side, Busiest { client, server }))
        };
        of(Side::A).or_else(|| of(Side::B))
    }

    /// Steps between values that are larger than the floor.
    fn coarse(&self) -> Option<Unusable> {
        let mut values: Vec<f64> = self
            .pairs
            .iter()
            .flat_map(|pair| [pair.a.value, pair.b.value])
            .collect();
        values.sort_by(f64::total_cmp);
        let value = *values.get(values.len() / 2)?;
        let all = values.len();
        let steps = values.windows(2).map(|two| two[1] - two[0]);
        let step = steps
            .filter(|step| *step > 0.0)
            .fold(f64::INFINITY, f64::min);
        values.dedup();
        // Of a fine metric hardly two values are equal; of a coarse one most are.
        let few = values.len() * 3 <= all;
        let large = step.is_finite() && step / value > self.floor.ln();
        (few && large).then_some(Unusable::Coarse { step, value })
    }
}

impl Floor {
    /// What it is where A differs from itself by so much; `None` if that was not measured.
    pub(crate) fn given(self, noise: Option<LogRatio>) -> LogRatio {
        match (self, noise.map(LogRatio::abs)) {
            (Self::AtLeast(least), Some(noise)) if noise > least => noise,
            _ => self.at_least(),
        }
    }

    fn at_least(self) -> LogRatio {
        match self {
            Self::Fixed(floor) | Self::AtLeast(floor) => floor,
        }
    }
}

fn trial<E: Executor>(
    executor: &mut E,
    side: Side,
    purpose: Purpose,
) -> Result<Trial, Ended<E::Failure>> {
    let failed = |failure| Ended::Failed { side, failure };
    executor.run(side, purpose).map_err(failed)
}

fn not_positive(pair: &Pair) -> Option<Unusable> {
    let faulty = |(side, trial): (Side, &Trial)| {
        let good = trial.value.is_finite() && trial.value > 0.0;
        (!good).then_some(Unusable::NotPositive {
            side,
            value: trial.value,
        })
    };
    [(Side::A, &pair.a), (Side::B, &pair.b)]
        .into_iter()
        .find_map(faulty)
}

fn differences(pairs: &[Pair]) -> Vec<LogRatio> {
    pairs
        .iter()
        .filter(|pair| pair.disturbed().is_empty())
        .filter_map(|pair| LogRatio::of(pair.a.value, pair.b.value))
        .collect()
}
