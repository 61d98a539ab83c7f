//! What a repair gains: both layouts in turn, and an interval for the median of the ratios.

use anyhow::Result;

use crate::pairs::{Pairs, Run, interleave_until, median};

/// How many pairs at most are run for each that is wanted, where the machine is busy.
const MOST_PER_WANTED: u32 = 2;

/// Which pairs of runs count, if any do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counted {
    /// Those whose threads all ran at the same time.
    SideBySide,
    /// Those of which other programs took little: threads that sleep in between are never all side by side.
    Undisturbed,
}

impl Counted {
    fn word(self) -> &'static str {
        match self {
            Self::SideBySide => "side by side",
            Self::Undisturbed => "undisturbed",
        }
    }

    fn none(self) -> &'static str {
        match self {
            Self::SideBySide => "did the threads run side by side",
            Self::Undisturbed => "did other programs leave the processors alone",
        }
    }
}

/// What interleaved pairs of runs gave.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Gain {
    /// The median of slow over repaired, cost per unit of work.
    pub(super) ratio: f64,
    /// Its 95 % interval; none from fewer than six pairs.
    pub(super) interval: Option<(f64, f64)>,
    /// Which pairs count.
    pub(super) counted: Counted,
    /// How many count; if any do, the ratio is of them only.
    pub(super) good: usize,
    /// All pairs.
    pub(super) pairs: usize,
}

/// Runs both layouts in turn until so many pairs count.
pub(super) fn measure(
    wanted: u32,
    counted: Counted,
    repaired: impl FnMut() -> Result<Run>,
    slow: impl FnMut() -> Result<Run>,
) -> Result<Gain> {
    let pairs = interleave_until(wanted as usize, wanted * MOST_PER_WANTED, repaired, slow)?;
    Ok(Gain::of(&pairs, counted))
}

impl Gain {
    fn of(pairs: &Pairs, counted: Counted) -> Self {
        Self {
            ratio: median(&pairs.ratios),
            interval: interval(&pairs.ratios),
            counted,
            good: pairs.side_by_side,
            pairs: pairs.n,
        }
    }

    /// Whether the repaired layout is faster beyond doubt, in runs that count.
    pub(super) fn is_shown(&self) -> bool {
        self.good > 0 && self.interval.is_some_and(|(low, _)| low > 1.0)
    }

    /// The words for it.
    pub(super) fn words(&self) -> String {
        let (ratio, of) = (self.ratio, self.pairs);
        let range = match self.interval {
            Some((low, high)) => format!("{ratio:.2}× [{low:.2}, {high:.2}]"),
            None => format!("{ratio:.2}×, too few pairs for an interval"),
        };
        let (good, word) = (self.good, self.counted.word());
        if good == 0 {
            let none = self.counted.none();
            format!("cannot tell: in none of {of} pairs {none} ({range})")
        } else if self.is_shown() {
            format!("{range}, {good} of {of} pairs {word}")
        } else {
            format!("no gain was shown: {range}, {good} of {of} pairs {word}")
        }
    }
}

/// A 95 % interval for the median, whatever the noise: between two of the sorted values. That the median lies beyond the
/// `k`-th from an end is as likely as fewer than `k` heads of `n` coins.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    const ERROR: f64 = 0.05;
    let n = sorted.len();
    let mut coins = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut beyond = coins;
    let mut k = 0;
    while 2.0 * beyond <= ERROR {
        k += 1;
        coins *= (n - k + 1) as f64 / k as f64;
        beyond += coins;
    }
    let low = k.checked_sub(1)?;
    Some((*sorted.get(low)?, *sorted.get(n - 1 - low)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(n: u32, expected: Option<(f64, f64)>) {
        let sorted: Vec<f64> = (1..=n).map(f64::from).collect();
        assert_eq!(interval(&sorted), expected, "{n}");
    }

    /// The ranks are those of the tables of the sign test.
    #[test]
    fn intervals_for_the_median() {
        check(0, None);
        check(5, None);
        check(6, Some((1.0, 6.0)));
        check(8, Some((1.0, 8.0)));
        check(9, Some((2.0, 8.0)));
        check(12, Some((3.0, 10.0)));
        check(20, Some((6.0, 15.0)));
    }

    fn gain(ratio: f64, interval: Option<(f64, f64)>, good: usize) -> String {
        let gain = Gain {
            ratio,
            interval,
            counted: Counted::SideBySide,
            good,
            pairs: 8,
        };
        gain.words()
    }

    #[test]
    fn what_was_not_shown_is_said() {
        assert_eq!(
            gain(3.4, Some((3.1, 3.9)), 8),
            "3.40× [3.10, 3.90], 8 of 8 pairs side by side"
        );
        assert_eq!(
            gain(1.0, Some((0.9, 1.1)), 8),
            "no gain was shown: 1.00× [0.90, 1.10], 8 of 8 pairs side by side"
        );
        assert_eq!(
            gain(1.2, None, 3),
            "no gain was shown: 1.20×, too few pairs for an interval, 3 of 8 pairs side by side"
        );
        assert_eq!(
            gain(1.2, Some((1.1, 1.3)), 0),
            "cannot tell: in none of 8 pairs did the threads run side by side (1.20× [1.10, 1.30])"
        );
    }
}
