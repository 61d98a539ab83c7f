//! Wilcoxon's signed-rank test of paired differences, and the interval that it gives when turned around.
//!
//! Under "no difference" the two runs of a pair could be swapped, so each log ratio is as likely positive as negative.
//! That is all the test assumes; how the noise is distributed does not matter. F. Wilcoxon, "Individual Comparisons by
//! Ranking Methods", Biometrics Bulletin 1 (1945); the interval and the estimate by averages of all pairs of differences
//! (*Walsh averages*): J. L. Hodges and E. L. Lehmann, "Estimates of Location Based on Rank Tests", Annals of Mathematical
//! Statistics 34 (1963).
//!
//! The distribution is the exact one at every size. Where differences are equal or zero the exact distribution is not quite
//! theirs; then ties are counted against a finding, which makes the interval wider and the probability greater.

use crate::ratio::{LogRatio, Range};

/// Averages of all pairs of differences, each with itself too, sorted.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Walsh {
    averages: Vec<LogRatio>,
    n: usize,
}

impl Walsh {
    pub(crate) fn of(differences: &[LogRatio]) -> Self {
        let mut averages: Vec<LogRatio> = differences
            .iter()
            .enumerate()
            .flat_map(|(i, one)| differences[i..].iter().map(|other| one.midpoint(*other)))
            .collect();
        averages.sort_by(|a, b| a.ln().total_cmp(&b.ln()));
        Self {
            averages,
            n: differences.len(),
        }
    }

    /// The estimate of Hodges and Lehmann: the median of the averages. `None` of nothing.
    pub(crate) fn estimate(&self) -> Option<LogRatio> {
        let last = self.averages.len().checked_sub(1)?;
        Some(self.averages[last / 2].midpoint(self.averages[last.div_ceil(2)]))
    }

    /// The probability of a signed-rank sum at least as lopsided, in either direction, if there is no difference.
    pub(crate) fn p_value(&self) -> f64 {
        let positive = self.averages.iter().filter(|x| x.ln() > 0.0).count();
        let negative = self.averages.iter().filter(|x| x.ln() < 0.0).count();
        // Zeros go to the smaller side.
        let smaller = self.averages.len() - positive.max(negative);
        (2.0 * Null::of(self.n).at_most(smaller)).min(1.0)
    }

    /// All differences that the test does not reject at this probability of error; everything, if there are too few.
    pub(crate) fn interval(&self, error: f64) -> Range {
        match Null::of(self.n).critical(error) {
            Some(rejects) => Range {
                low: self.averages[rejects],
                high: self.averages[self.averages.len() - 1 - rejects],
            },
            None => Range::EVERYTHING,
        }
    }
}

/// The distribution of the sum of the ranks of positive differences if there is no difference.
struct Null {
    /// The probability of each sum, from 0.
    probabilities: Vec<f64>,
}

impl Null {
    /// Of `n` pairs: each rank is in the sum or not, with equal probability.
    fn of(n: usize) -> Self {
        let mut probabilities = vec![0.0; n * (n + 1) / 2 + 1];
        probabilities[0] = 1.0;
        let mut greatest = 0;
        for rank in 1..=n {
            greatest += rank;
            for sum in (0..=greatest).rev() {
                let without = probabilities[sum];
                let with = sum
                    .checked_sub(rank)
                    .map_or(0.0, |rest| probabilities[rest]);
                probabilities[sum] = f64::midpoint(without, with);
            }
        }
        Self { probabilities }
    }

    fn at_most(&self, sum: usize) -> f64 {
        self.probabilities.iter().take(sum + 1).sum()
    }

    /// The greatest sum at which both tails together have at most this probability; `None` if even 0 has more.
    fn critical(&self, error: f64) -> Option<usize> {
        let mut tail = 0.0;
        let fits = |probability: &&f64| {
            tail += **probability;
            2.0 * tail <= error
        };
        self.probabilities
            .iter()
            .take_while(fits)
            .count()
            .checked_sub(1)
    }
}

/// The least probability that the test can give with so many pairs: all differences of one sign.
pub(crate) fn least_p_value(pairs: usize) -> f64 {
    let exponent = i32::try_from(pairs).unwrap_or(i32::MAX).saturating_sub(1);
    0.5_f64.powi(exponent).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walsh(values: &[f64]) -> Walsh {
        let differences: Vec<LogRatio> = values.iter().map(|x| LogRatio::from_ln(*x)).collect();
        Walsh::of(&differences)
    }

    /// All sign patterns, counted: what the distribution must be.
    fn brute_force(n: usize) -> Vec<f64> {
        let mut counts = vec![0.0; n * (n + 1) / 2 + 1];
        for signs in 0..1_u32 << n {
            let sum: usize = (1..=n).filter(|rank| signs >> (rank - 1) & 1 == 1).sum();
            counts[sum] += 1.0 / f64::from(1_u32 << n);
        }
        counts
    }

    #[test]
    fn the_distribution_is_that_of_all_sign_patterns() {
        for n in 1..=12 {
            let expected = brute_force(n);
            let got = Null::of(n).probabilities;
            assert!(
                expected
                    .iter()
                    .zip(&got)
                    .all(|(a, b)| (a - b).abs() < 1e-12),
                "{n}"
            );
        }
    }

    /// From the tables of Wilcoxon's test, two-sided 5 % and 1 %.
    #[test]
    fn critical_sums_are_those_of_the_printed_tables() {
        for (n, at_5, at_1) in [
            (5, None, None),
            (6, Some(0), None),
            (8, Some(3), Some(0)),
            (10, Some(8), Some(3)),
            (20, Some(52), Some(37)),
            (25, Some(89), Some(68)),
        ] {
            let null = Null::of(n);
            assert_eq!(
                (null.critical(0.05), null.critical(0.01)),
                (at_5, at_1),
                "{n}"
            );
        }
    }

    #[test]
    fn the_interval_excludes_zero_exactly_where_the_test_rejects() {
        let shift = [0.3, -0.1, 0.25, 0.4, 0.05, 0.33, 0.2, 0.45];
        for by in 0..60 {
            let moved: Vec<f64> = shift.iter().map(|x| x - f64::from(by) * 0.01).collect();
            let walsh = walsh(&moved);
            for error in [0.05, 0.02, 0.01] {
                assert_eq!(
                    !walsh.interval(error).has_zero(),
                    walsh.p_value() <= error,
                    "shifted by {by}, error {error}"
                );
            }
        }
    }

    #[test]
    fn equal_runs_are_no_evidence() {
        assert!((walsh(&[0.0; 12]).p_value() - 1.0).abs() < 1e-12);
        assert!(walsh(&[0.0; 12]).interval(0.05).has_zero());
        assert_eq!(walsh(&[]).estimate(), None);
        assert_eq!(walsh(&[0.1; 3]).interval(0.05), Range::EVERYTHING);
    }

    #[test]
    fn the_least_probability_is_that_of_equal_signs() {
        for n in 1..=10 {
            let all_positive: Vec<f64> = (1..=n).map(f64::from).collect();
            let least = walsh(&all_positive).p_value();
            assert!((least - least_p_value(n as usize)).abs() < 1e-12, "{n}");
        }
    }
}
