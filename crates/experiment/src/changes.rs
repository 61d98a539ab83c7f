//! Changes in a series: does it have a step, a drift, or only noise?
//!
//! Two statistics of the ranks are asked, because each is blind to what the other sees best:
//!
//! - a step: the greatest standardised sum of the ranks before a point, over all points (after A. N. Pettitt, "A
//!   Non-Parametric Approach to the Change-Point Problem", Applied Statistics 28 (1979));
//! - a drift: the correlation of ranks with time (C. Spearman, 1904; H. E. Daniels, 1950).
//!
//! How likely noise alone would give as much is found by shuffling the series: with noise whose order does not matter, every
//! order is equally likely, whatever its distribution. Of `n` shuffles that reach the value, out of `N`, the
//! probability is at most (n + 1) / (N + 1) (B. Phipson and G. K. Smyth, Statistical Applications in Genetics and Molecular
//! Biology 9 (2010)). Each statistic gets half of the permitted error, and Holm's correction divides it among the series that
//! are looked at together: the probability that *any* flat one is called changed is at most 5 % each time one looks.
//!
//! # Caveats
//! Noise that remembers (a machine with good and bad weeks) is no noise whose order does not matter, and looks like a change.
//! Who looks after every commit takes the 5 % each time. A change that is undone later is harder to see than one that stays.

use crate::holm::holm;
use crate::looks::ERROR;
use crate::lots::Lots;
use crate::median::median;
use crate::ratio::LogRatio;

/// Shuffles of a series.
const SHUFFLES: u32 = 1999;
/// A level has at least so many points: one alone is an outlier.
const LEAST_LEVEL: usize = 2;
/// With fewer points no order is unlikely enough.
pub const LEAST_POINTS: usize = 5;

/// How a series changed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// From one point on it is on another level.
    Step {
        /// The first point of the new level.
        at: usize,
        /// The new level over the old one: the ratio of medians.
        size: LogRatio,
    },
    /// It wanders off little by little.
    Drift {
        /// The first point of the drift.
        from: usize,
        /// The last one.
        to: usize,
        /// From one point to the next: the median slope of all pairs of points (H. Theil, 1950; P. K. Sen, 1968).
        each: LogRatio,
    },
}

impl Change {
    /// By how much the series changed in all.
    #[must_use]
    pub fn size(&self) -> LogRatio {
        match self {
            Self::Step { size, .. } => *size,
            Self::Drift { from, to, each } => LogRatio::from_ln(each.ln() * (to - from) as f64),
        }
    }
}

/// What is said of one series.
#[derive(Clone, PartialEq, Debug)]
pub struct Detected {
    /// The probability that noise alone looks so much like a change; 1 of a series that is too short.
    pub p: f64,
    /// The same, all series considered.
    pub adjusted_p: f64,
    /// Its changes, in order; empty if it is flat, or all of them are below the floor.
    pub changes: Vec<Change>,
}

/// Looks for changes in several series together; smaller ones than `floor` are not worth a word.
#[must_use]
pub fn detect(series: &[Vec<LogRatio>], floor: LogRatio) -> Vec<Detected> {
    let probabilities: Vec<f64> = series
        .iter()
        .map(|values| probability(values).either())
        .collect();
    let adjusted = holm(&probabilities);
    series
        .iter()
        .zip(probabilities.iter().zip(adjusted))
        .map(|(values, (&p, adjusted_p))| {
            let mut changes = Vec::new();
            if adjusted_p <= ERROR {
                split(values, 0, &mut changes);
            }
            changes.retain(|change| change.size().abs() >= floor);
            Detected {
                p,
                adjusted_p,
                changes,
            }
        })
        .collect()
}

/// The first change of a stretch that is known to have one, and what is found on both sides of a step.
fn split(values: &[LogRatio], offset: usize, changes: &mut Vec<Change>) {
    let (at, around_step) = best_step(values);
    let (each, around_line) = best_line(values);
    // A line may fit a bump no worse than one step does: it must go somewhere, too.
    if around_line <= around_step && probability(values).drift <= ERROR / 2.0 {
        changes.push(Change::Drift {
            from: offset,
            to: offset + values.len() - 1,
            each,
        });
        return;
    }
    let (before, after) = values.split_at(at);
    if probability(before).either() <= ERROR {
        split(before, offset, changes);
    }
    changes.push(Change::Step {
        at: offset + at,
        size: between(before, after),
    });
    if probability(after).either() <= ERROR {
        split(after, offset + at, changes);
    }
}

fn between(before: &[LogRatio], after: &[LogRatio]) -> LogRatio {
    let level = |values: &[LogRatio]| median(values).map_or(0.0, LogRatio::ln);
    LogRatio::from_ln(level(after) - level(before))
}

/// Where a step is likeliest, and how far the points are from its two levels, all together.
fn best_step(values: &[LogRatio]) -> (usize, f64) {
    let away = |values: &[LogRatio]| -> f64 {
        let level = median(values).map_or(0.0, LogRatio::ln);
        values.iter().map(|value| (value.ln() - level).abs()).sum()
    };
    let (at, _) =
        steps(&ranks(values)).fold(
            (LEAST_LEVEL, 0.0),
            |best, one| {
                if one.1 > best.1 { one } else { best }
            },
        );
    (at, away(&values[..at]) + away(&values[at..]))
}

/// The slope that fits best, and how far the points are from its line, all together.
fn best_line(values: &[LogRatio]) -> (LogRatio, f64) {
    let slopes: Vec<LogRatio> = (0..values.len())
        .flat_map(|i| {
            (i + 1..values.len())
                .map(move |j| LogRatio::from_ln((values[j].ln() - values[i].ln()) / (j - i) as f64))
        })
        .collect();
    let slope = median(&slopes).unwrap_or(LogRatio::ZERO);
    let flat: Vec<LogRatio> = values
        .iter()
        .enumerate()
        .map(|(i, value)| LogRatio::from_ln(value.ln() - slope.ln() * i as f64))
        .collect();
    let level = median(&flat).map_or(0.0, LogRatio::ln);
    let away = flat.iter().map(|value| (value.ln() - level).abs()).sum();
    (slope, away)
}

/// The probabilities that noise alone looks as much like a change.
struct Probability {
    step: f64,
    drift: f64,
}

impl Probability {
    /// By either statistic: each has half of the permitted error.
    fn either(&self) -> f64 {
        (2.0 * self.step.min(self.drift)).min(1.0)
    }
}

fn probability(values: &[LogRatio]) -> Probability {
    if values.len() < LEAST_POINTS {
        return Probability {
            step: 1.0,
            drift: 1.0,
        };
    }
    let mut ranks = ranks(values);
    let (step, drift) = (step(&ranks), drift(&ranks));
    let (mut steps, mut drifts) = (0, 0);
    // The same shuffles each time, so that the same history says the same.
    let mut lots = Lots::new(values.len() as u64);
    // Sums of halves are exact; only the scaling rounds.
    const ROUNDING: f64 = 1e-9;
    for _ in 0..SHUFFLES {
        lots.shuffle(&mut ranks);
        steps += u32::from(self::step(&ranks) >= step - ROUNDING);
        drifts += u32::from(self::drift(&ranks) >= drift - ROUNDING);
    }
    let part = |n: u32| f64::from(n + 1) / f64::from(SHUFFLES + 1);
    Probability {
        step: part(steps),
        drift: part(drifts),
    }
}

/// Ranks around zero; equal values share theirs.
fn ranks(values: &[LogRatio]) -> Vec<f64> {
    let of = |value: &LogRatio| {
        let less = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        less as f64 + (equal as f64 - 1.0) / 2.0
    };
    let middle = (values.len() as f64 - 1.0) / 2.0;
    values.iter().map(|value| of(value) - middle).collect()
}

/// The greatest standardised sum of the ranks before a point.
fn step(ranks: &[f64]) -> f64 {
    steps(ranks).map(|(_, size)| size).fold(0.0, f64::max)
}

/// The standardised sum of the ranks before each point that may be the first of a new level.
fn steps(ranks: &[f64]) -> impl Iterator<Item = (usize, f64)> + '_ {
    let n = ranks.len();
    let mut sum: f64 = ranks[..LEAST_LEVEL - 1].iter().sum();
    (LEAST_LEVEL..=n - LEAST_LEVEL).map(move |before| {
        sum += ranks[before - 1];
        let scale = (before as f64 * (n - before) as f64 / n as f64).sqrt();
        (before, sum.abs() / scale)
    })
}

/// How much ranks go with time.
fn drift(ranks: &[f64]) -> f64 {
    let middle = (ranks.len() as f64 - 1.0) / 2.0;
    let each = ranks.iter().enumerate();
    each.map(|(time, rank)| (time as f64 - middle) * rank)
        .sum::<f64>()
        .abs()
}
