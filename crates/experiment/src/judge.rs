//! From the differences of pairs to an outcome.

use serde::{Deserialize, Serialize};

use crate::looks::{ERROR, Look, Looks};
use crate::median::median;
use crate::ratio::{LogRatio, Range};
use crate::signed_rank::Walsh;

/// Which values of the metric are good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Throughput.
    Higher,
    /// Time, memory.
    Lower,
}

/// What the pairs at one look say.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Estimate {
    /// Pairs that it is of.
    pub pairs: usize,
    /// The median of the averages of all pairs of log ratios (Hodges and Lehmann).
    pub effect: LogRatio,
    /// The median of the log ratios.
    pub median: LogRatio,
    /// Where the effect is, with an error of at most 5 % over all looks together.
    pub interval: Range,
    /// The least permitted error at which this look or one before it would exclude "no difference".
    pub p: f64,
}

/// Where a row stands.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// B is better than A: zero is excluded, and the effect is no smaller than the floor.
    Improved,
    /// B is worse than A, likewise.
    Regressed,
    /// Whatever difference there is, it is smaller than the floor.
    Equivalent,
    /// The pairs do not say.
    Undecided {
        /// About how many pairs more it would take at this noise, if the effect is what it looks like.
        more_pairs: Option<usize>,
    },
}

/// What the pairs say at a look; `before` is what the look before said.
pub(crate) fn estimate(
    differences: &[LogRatio],
    look: Look,
    before: Option<&Estimate>,
) -> Estimate {
    let walsh = Walsh::of(differences);
    let p = (walsh.p_value() / look.spends).min(1.0);
    Estimate {
        pairs: differences.len(),
        effect: walsh.estimate().unwrap_or(LogRatio::ZERO),
        median: median(differences).unwrap_or(LogRatio::ZERO),
        interval: walsh.interval(ERROR * look.spends),
        p: before.map_or(p, |before| p.min(before.p)),
    }
}

/// The estimate of so many pairs, to look at while they run: nothing may be decided by it. `None` of nothing.
#[must_use]
pub fn running_estimate(differences: &[LogRatio]) -> Option<LogRatio> {
    Walsh::of(differences).estimate()
}

/// The outcome of an estimate, if its error may be at most `error`.
pub(crate) fn outcome(
    estimate: &Estimate,
    floor: LogRatio,
    better: Better,
    error: f64,
    looks: &Looks,
) -> Outcome {
    if estimate.interval.is_within(floor) {
        return Outcome::Equivalent;
    }
    if estimate.p <= error && estimate.effect.abs() >= floor {
        return match (better, estimate.effect > LogRatio::ZERO) {
            (Better::Higher, true) | (Better::Lower, false) => Outcome::Improved,
            _ => Outcome::Regressed,
        };
    }
    Outcome::Undecided {
        more_pairs: more_pairs(estimate, floor, looks),
    }
}

/// The interval gets narrower with the root of the number of pairs. It decides when it lies on one side of zero, or within
/// the floor: whichever the effect is nearer to.
fn more_pairs(estimate: &Estimate, floor: LogRatio, looks: &Looks) -> Option<usize> {
    let half = estimate.interval.half_width().ln();
    let effect = estimate.effect.abs().ln();
    // The error of a suite is divided among its rows, which takes a wider interval: by the ratio of normal quantiles, which
    // grow about as the root of the logarithm.
    let rows = looks.rows() as f64;
    let suite = ((2.0 * (2.0 * rows / ERROR).ln()) / (2.0 * (2.0 / ERROR).ln())).sqrt();
    let needed = if effect >= floor.ln() {
        effect / suite
    } else {
        floor.ln() - effect
    };
    let pairs = estimate.pairs as f64 * (half / needed).powi(2);
    // Beyond this nobody would; and an effect at the edge of the floor is never told.
    const SENSIBLE: f64 = 10_000.0;
    (pairs.is_finite() && pairs < SENSIBLE).then(|| {
        (pairs.ceil() as usize)
            .saturating_sub(estimate.pairs)
            .max(2)
    })
}

/// Whether the ranges "mean ± standard deviation" of both sides do not overlap: a badge that people know, not a
/// gate, because more pairs do not make it more likely.
pub(crate) fn sigma_disjoint(a: &[f64], b: &[f64]) -> bool {
    let spread = |values: &[f64]| {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance.sqrt())
    };
    if a.len() < 2 || b.len() < 2 {
        return false;
    }
    let ((mean_a, sigma_a), (mean_b, sigma_b)) = (spread(a), spread(b));
    (mean_a - mean_b).abs() > sigma_a + sigma_b
}
