//! A ratio of two means with its interval: Welch's, on logarithms.
//!
//! Speeds of windows differ by factors, so their logarithms are compared. The two placements need not vary equally: a
//! contended thread varies more. B. L. Welch, "The generalization of 'Student's' problem when several different
//! population variances are involved", Biometrika 34 (1947).

use hitm_model::Interval;
use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Of both tails.
const CONFIDENCE: f64 = 0.95;

/// The mean of numbers and the variance of that mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mean {
    pub(super) value: f64,
    /// Of one number, not of the mean.
    pub(super) variance: f64,
    pub(super) n: f64,
}

impl Mean {
    /// Of at least two numbers.
    pub(super) fn of(numbers: &[f64]) -> Option<Self> {
        if numbers.len() < 2 {
            return None;
        }
        let n = numbers.len() as f64;
        let value = numbers.iter().sum::<f64>() / n;
        let squares: f64 = numbers.iter().map(|x| (x - value).powi(2)).sum();
        Some(Self {
            value,
            variance: squares / (n - 1.0),
            n,
        })
    }

    fn of_mean(&self) -> f64 {
        self.variance / self.n
    }
}

/// The ratio of two quantities of which the logarithms are given.
pub(super) fn ratio(numerator: &Mean, denominator: &Mean) -> Interval {
    let difference = numerator.value - denominator.value;
    let (a, b) = (numerator.of_mean(), denominator.of_mean());
    let half = (a + b).sqrt() * quantile(freedom(a, numerator.n, b, denominator.n));
    Interval {
        ratio: difference.exp(),
        low: (difference - half).exp(),
        high: (difference + half).exp(),
    }
}

/// How far two means of so many numbers of this kind differ by chance, as a factor of at least 1.
pub(super) fn floor(mean: &Mean) -> f64 {
    let variance = 2.0 * mean.of_mean();
    (variance.sqrt() * quantile(2.0 * (mean.n - 1.0))).exp()
}

/// The degrees of freedom of Welch and Satterthwaite.
fn freedom(a: f64, n_a: f64, b: f64, n_b: f64) -> f64 {
    let below = a * a / (n_a - 1.0) + b * b / (n_b - 1.0);
    if below > 0.0 {
        (a + b).powi(2) / below
    } else {
        n_a + n_b - 2.0
    }
}

/// The two-sided quantile of Student's distribution.
fn quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom.max(1.0)).map_or(f64::INFINITY, |student| {
        student.inverse_cdf(1.0 - (1.0 - CONFIDENCE) / 2.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(numbers: &[f64]) -> Mean {
        Mean::of(&numbers.iter().map(|x| x.ln()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_interval_is_welchs() {
        // From the formula with the quantile of 6.99 degrees of freedom (2.365), integrated numerically.
        let a = logs(&[5.1, 4.8, 5.3, 5.0]);
        let b = logs(&[1.0, 1.1, 0.95, 1.02, 0.98]);
        let found = ratio(&a, &b);
        let text = format!("{:.3} [{:.3}, {:.3}]", found.ratio, found.low, found.high);
        assert_eq!(text, "5.003 [4.637, 5.398]");
    }

    #[test]
    fn equal_numbers_have_no_spread() {
        let a = logs(&[2.0, 2.0, 2.0]);
        let found = ratio(&a, &a);
        assert_eq!((found.low, found.ratio, found.high), (1.0, 1.0, 1.0));
        assert!((floor(&a) - 1.0).abs() < 1e-12);
    }
}
