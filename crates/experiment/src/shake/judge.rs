//! What the rounds say of the layouts, all of them considered together.
//!
//! With a dozen variants, one of them seems to differ by chance more often than not. So the probabilities are Holm's, and
//! the intervals hold all at once with 95 %: each is of 1 − 5 %/variants (Bonferroni), from Wilcoxon's signed-rank test
//! over the rounds. From intervals that hold at once follows one for the *spread*, from the best layout to the worst, with
//! the base among them: it is at least the highest lower end less the lowest upper end, and at most the highest upper
//! end less the lowest lower end.

use super::rounds::{Arm, Rounds};
use crate::holm::holm;
use crate::judge::Better;
use crate::looks::ERROR;
use crate::ratio::{LogRatio, Range};
use crate::row::Floor;
use crate::signed_rank::{Walsh, least_p_value};

/// What the rounds say of one arm.
#[derive(Clone, PartialEq, Debug)]
pub struct ArmEstimate {
    /// Which.
    pub arm: Arm,
    /// Rounds that count.
    pub rounds: usize,
    /// Its metric over the base's: the median of the averages of all pairs of rounds (Hodges and Lehmann).
    pub effect: LogRatio,
    /// Where the effect is; of all variants at once with 95 %, of the base against itself with 95 %.
    pub interval: Range,
    /// The probability of error of "it differs from the base", after Holm's correction over the variants; of the base
    /// against itself, uncorrected.
    pub p: f64,
}

/// What is said of all layouts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Verdict {
    /// At least one layout differs from the base by no less than the floor.
    Matters,
    /// All of the spread is inside the floor.
    DoesNotMatter,
    /// The rounds do not say.
    Undecided {
        /// About how many rounds more it would take at this noise.
        more_rounds: Option<usize>,
    },
}

/// Which layouts are on which side of the cliff.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sides {
    /// Those that are surely on the better side of the middle between the best and the worst.
    pub fast: Vec<Arm>,
    /// Those that are surely on the worse side.
    pub slow: Vec<Arm>,
    /// Those of which it is not sure.
    pub between: Vec<Arm>,
}

/// All that the rounds say.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// The base against itself.
    pub base_again: Option<ArmEstimate>,
    /// The variants that have at least one round, in their order.
    pub variants: Vec<ArmEstimate>,
    /// Effects below it do not count.
    pub floor: LogRatio,
    /// The distance from the best layout to the worst.
    pub spread: Option<LogRatio>,
    /// Where the spread is, with 95 %.
    pub spread_interval: Option<Range>,
    /// What that means.
    pub verdict: Verdict,
    /// Where the layouts are if it matters.
    pub sides: Sides,
}

/// Judges what was measured.
#[must_use]
pub fn judge<F: Clone>(rounds: &Rounds<F>, better: Better, floor: Floor) -> Judgement {
    let base_again = estimate(rounds, Arm::BaseAgain, ERROR);
    let floor = floor.given(base_again.as_ref().map(|again| again.effect));
    let arms: Vec<Arm> = Arm::all(rounds.plan.variants).skip(2).collect();
    let share = ERROR / arms.len().max(1) as f64;
    let mut variants: Vec<ArmEstimate> = arms
        .into_iter()
        .filter_map(|arm| estimate(rounds, arm, share))
        .collect();
    let ps: Vec<f64> = variants.iter().map(|arm| arm.p).collect();
    for (arm, p) in variants.iter_mut().zip(holm(&ps)) {
        arm.p = p;
    }
    let spread = spread(&variants);
    let verdict = verdict(&variants, spread, floor);
    let sides = match verdict {
        Verdict::Matters => sides(&variants, better),
        _ => Sides::default(),
    };
    Judgement {
        base_again,
        spread: spread.map(|(estimate, _)| estimate),
        spread_interval: spread.map(|(_, interval)| interval),
        variants,
        floor,
        verdict,
        sides,
    }
}

/// Rounds without which no verdict on so many variants is possible, whatever they show.
#[must_use]
pub fn rounds_needed(variants: usize) -> usize {
    let share = ERROR / variants.max(1) as f64;
    (1..).find(|&n| least_p_value(n) <= share).unwrap_or(1)
}

fn estimate<F: Clone>(rounds: &Rounds<F>, arm: Arm, error: f64) -> Option<ArmEstimate> {
    let differences = rounds.differences(arm);
    let walsh = Walsh::of(&differences);
    Some(ArmEstimate {
        arm,
        rounds: differences.len(),
        effect: walsh.estimate()?,
        interval: walsh.interval(error),
        p: walsh.p_value(),
    })
}

/// The spread and its interval; the base is one of the layouts, at 0.
fn spread(variants: &[ArmEstimate]) -> Option<(LogRatio, Range)> {
    if variants.is_empty() {
        return None;
    }
    let most = |of: fn(&ArmEstimate) -> LogRatio| {
        variants.iter().map(|arm| of(arm).ln()).fold(0.0, f64::max)
    };
    let least = |of: fn(&ArmEstimate) -> LogRatio| {
        variants.iter().map(|arm| of(arm).ln()).fold(0.0, f64::min)
    };
    let estimate = most(|arm| arm.effect) - least(|arm| arm.effect);
    let low = most(|arm| arm.interval.low) - least(|arm| arm.interval.high);
    let high = most(|arm| arm.interval.high) - least(|arm| arm.interval.low);
    let interval = Range {
        low: LogRatio::from_ln(low),
        high: LogRatio::from_ln(high),
    };
    Some((LogRatio::from_ln(estimate), interval))
}

fn verdict(
    variants: &[ArmEstimate],
    spread: Option<(LogRatio, Range)>,
    floor: LogRatio,
) -> Verdict {
    let differs = |arm: &ArmEstimate| arm.p <= ERROR && arm.effect.abs() >= floor;
    if variants.iter().any(differs) {
        return Verdict::Matters;
    }
    match spread {
        Some((_, interval)) if interval.high <= floor => Verdict::DoesNotMatter,
        Some((estimate, interval)) => Verdict::Undecided {
            more_rounds: more_rounds(variants, estimate, interval, floor),
        },
        None => Verdict::Undecided { more_rounds: None },
    }
}

/// Intervals get narrower with the root of the number of rounds. The upper end of the spread's must come below the floor,
/// or its lower end above it: whichever is nearer.
fn more_rounds(
    variants: &[ArmEstimate],
    spread: LogRatio,
    interval: Range,
    floor: LogRatio,
) -> Option<usize> {
    const SENSIBLE: f64 = 2_000.0;
    let rounds = variants.iter().map(|arm| arm.rounds).min()?;
    let needed = rounds_needed(variants.len());
    if rounds < needed {
        return Some(needed - rounds);
    }
    let (spread, floor) = (spread.ln(), floor.ln());
    let (width, room) = match spread < floor {
        true => (interval.high.ln() - spread, floor - spread),
        false => (spread - interval.low.ln(), spread - floor),
    };
    let all = rounds as f64 * (width / room).powi(2);
    (all.is_finite() && all < SENSIBLE).then(|| (all.ceil() as usize).saturating_sub(rounds).max(2))
}

/// On which side of the middle between the best and the worst each layout is, as far as its interval is on one side.
fn sides(variants: &[ArmEstimate], better: Better) -> Sides {
    let effects = || variants.iter().map(|arm| arm.effect.ln());
    let (high, low) = (effects().fold(0.0, f64::max), effects().fold(0.0, f64::min));
    let middle = f64::midpoint(high, low);
    let mut sides = Sides::default();
    let base = (Arm::Base, 0.0, 0.0);
    let all = variants
        .iter()
        .map(|arm| (arm.arm, arm.interval.low.ln(), arm.interval.high.ln()));
    for (arm, from, to) in std::iter::once(base).chain(all) {
        let (below, above) = (to < middle, from > middle);
        let side = match (below, above, better) {
            (true, _, Better::Lower) | (_, true, Better::Higher) => &mut sides.fast,
            (true, ..) | (_, true, _) => &mut sides.slow,
            _ => &mut sides.between,
        };
        side.push(arm);
    }
    sides
}
