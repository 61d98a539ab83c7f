//! The rows of a suite together: which are decided, and which are so odd that they are run again.

use serde::{Deserialize, Serialize};

use crate::holm::holm;
use crate::judge::{Outcome, sigma_disjoint};
use crate::looks::ERROR;
use crate::ratio::LogRatio;
use crate::row::{Ended, Row};
use crate::signed_rank::Walsh;

/// What is said of a row, all rows considered.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// The outcome; of a row that was run again, the one that both support.
    pub outcome: Outcome,
    /// The probability of error after Holm's correction over the rows; 1 for a row without a look.
    pub adjusted_p: f64,
    /// Mean ± standard deviation of the two sides do not overlap.
    pub sigma_disjoint: bool,
}

/// Why a decided row is run again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Suspicious {
    /// All pairs of the earlier half say more than all of the later half, or less: something changed on the way.
    HalvesDiffer,
    /// A against itself already looked like a difference.
    NoiseDiffers,
    /// A fourth of the pairs or more were disturbed.
    OftenDisturbed,
}

impl std::fmt::Display for Suspicious {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::HalvesDiffer => "the later pairs all say something else than the earlier ones",
            Self::NoiseDiffers => "A differs from itself",
            Self::OftenDisturbed => "a fourth of the pairs or more were disturbed",
        })
    }
}

impl<F> Row<F> {
    /// What is odd about a row that says improved or regressed. It is run again once, and then both must agree.
    #[must_use]
    pub fn suspicious(&self) -> Option<Suspicious> {
        if !matches!(self.outcome(ERROR), Outcome::Improved | Outcome::Regressed) {
            return None;
        }
        let differences = self.differences();
        let (early, late) = differences.split_at(differences.len() / 2);
        let noise = Walsh::of(&self.noise_differences());
        if apart(early, late) || apart(late, early) {
            Some(Suspicious::HalvesDiffer)
        } else if !noise.interval(ERROR).has_zero() {
            Some(Suspicious::NoiseDiffers)
        } else if self.disturbed() * 4 >= self.pairs.len() {
            Some(Suspicious::OftenDisturbed)
        } else {
            None
        }
    }
}

/// Whether all of the one are less than all of the other.
fn apart(less: &[LogRatio], more: &[LogRatio]) -> bool {
    less.iter().all(|one| more.iter().all(|other| one < other))
}

/// Decides all rows of a suite together: the probability that *any* of them is wrongly called improved or regressed is at
/// most [`ERROR`].
///
/// Each row comes with its second run, if it had one. A row that the second run does not confirm is undecided.
#[must_use]
pub fn conclude<F>(rows: &[(&Row<F>, Option<&Row<F>>)]) -> Vec<Verdict> {
    let first: Vec<f64> = rows.iter().map(|(row, _)| p(row)).collect();
    let adjusted = holm(&first);
    rows.iter()
        .zip(adjusted)
        .map(|((row, again), adjusted_p)| Verdict {
            outcome: both(
                outcome(row, adjusted_p),
                again.map(|again| again.outcome(ERROR)),
            ),
            adjusted_p,
            sigma_disjoint: row.sigma_disjoint(),
        })
        .collect()
}

impl<F> Row<F> {
    fn sigma_disjoint(&self) -> bool {
        let counted = || self.pairs.iter().filter(|pair| pair.disturbed().is_empty());
        let a: Vec<f64> = counted().map(|pair| pair.a.value).collect();
        let b: Vec<f64> = counted().map(|pair| pair.b.value).collect();
        sigma_disjoint(&a, &b)
    }
}

fn p<F>(row: &Row<F>) -> f64 {
    match (&row.ended, &row.estimate) {
        // What a failed row measured is shown, and decides nothing.
        (Ended::Failed { .. } | Ended::Unusable(_), _) | (_, None) => 1.0,
        (_, Some(estimate)) => estimate.p,
    }
}

/// With the probability of the whole suite in place of the row's own.
fn outcome<F>(row: &Row<F>, adjusted_p: f64) -> Outcome {
    let undecided = Outcome::Undecided { more_pairs: None };
    if matches!(row.ended, Ended::Failed { .. } | Ended::Unusable(_)) {
        return undecided;
    }
    // Decided by the row's own limit or not at all: 0 keeps what needs no probability.
    let error = if adjusted_p <= ERROR { ERROR } else { 0.0 };
    row.outcome(error)
}

fn both(first: Outcome, again: Option<Outcome>) -> Outcome {
    match again {
        None => first,
        Some(again) if std::mem::discriminant(&first) == std::mem::discriminant(&again) => first,
        Some(_) => Outcome::Undecided { more_pairs: None },
    }
}
