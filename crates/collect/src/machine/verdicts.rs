//! What measured ratios mean: decisions over figures, no measuring here.

use super::contention::Operation;
use super::stats::Ratio;
use super::window::CannotTell;

/// Whether a cost ratio is told apart from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CostVerdict {
    /// It costs: the whole interval is above 1 by more than the margin.
    Costs,
    /// It does not: the whole interval is within the margin.
    Free,
    /// The interval reaches from one to the other, or there is none.
    Unclear,
}

/// Differences below this are not worth a change of layout, and near what this kind of measuring can resolve.
pub const MARGIN: f64 = 0.05;

/// Decides over one ratio.
#[must_use]
pub fn cost_verdict(ratio: &Ratio) -> CostVerdict {
    match ratio.interval {
        Some((low, _)) if low > 1.0 + MARGIN => CostVerdict::Costs,
        Some((_, high)) if high < 1.0 + MARGIN => CostVerdict::Free,
        _ => CostVerdict::Unclear,
    }
}

/// Whether lines that two threads write should be two lines apart here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PairVerdict {
    /// Yes: neighbours of a pair slow each other down.
    Matters,
    /// No: a line of its own is enough.
    DoesNotMatter,
    /// The measurements do not say.
    CannotTell,
}

/// Decides over the ratios of paired lines to lines apart, one per operation.
#[must_use]
pub fn pair_verdict(ratios: &[(Operation, Result<Ratio, CannotTell>)]) -> PairVerdict {
    let verdicts: Vec<CostVerdict> = ratios
        .iter()
        .map(|(_, ratio)| ratio.as_ref().map_or(CostVerdict::Unclear, cost_verdict))
        .collect();
    if verdicts.contains(&CostVerdict::Costs) {
        PairVerdict::Matters
    } else if !verdicts.is_empty() && verdicts.iter().all(|&verdict| verdict == CostVerdict::Free) {
        PairVerdict::DoesNotMatter
    } else {
        PairVerdict::CannotTell
    }
}
