//! The numbers of threads that are tried, and how often.

use serde::{Deserialize, Serialize};

use crate::looks::ERROR;
use crate::signed_rank::least_p_value;

/// A number of threads: what `{n}` stands for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Threads(pub u32);

impl std::fmt::Display for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Up to so many threads, every number is a point.
const EVERY: u32 = 8;

/// 1 to `to`: all numbers up to 8, then steps of a quarter to a half (12, 16, 24, 32, …), and the processors and `to`
/// themselves.
#[must_use]
pub fn default_points(processors: usize, to: u32) -> Vec<Threads> {
    let processors = u32::try_from(processors).unwrap_or(u32::MAX);
    let steps = (3..31).flat_map(|power| [1_u32 << power, (1 << power) + (1 << (power - 1))]);
    let mut points: Vec<u32> = (1..=EVERY.min(to))
        .chain(steps.filter(|n| *n > EVERY && *n <= to))
        .chain(
            [processors, to]
                .into_iter()
                .filter(|n| (1..=to).contains(n)),
        )
        .collect();
    points.sort_unstable();
    points.dedup();
    points.into_iter().map(Threads).collect()
}

/// The part of the permitted error that the interval of one pair of points may spend, so that all intervals together are
/// wrong with 5 % (C. E. Bonferroni's inequality).
pub(super) fn error_of_a_pair(points: usize) -> f64 {
    let pairs = points * points.saturating_sub(1) / 2;
    ERROR / pairs.max(1) as f64
}

/// Rounds without which the signed-rank test gives no interval for so many points that fit the processors, whatever they
/// show: 6 of 2 points, 8 of 4, 11 of 8.
#[must_use]
pub fn rounds_needed(points: usize) -> usize {
    let error = error_of_a_pair(points);
    (1..).find(|&n| least_p_value(n) <= error).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_every_number_and_then_fewer() {
        let check = |processors, to, expected: &[u32]| {
            let got: Vec<u32> = default_points(processors, to).iter().map(|n| n.0).collect();
            assert_eq!(got, expected, "{processors} {to}");
        };
        check(1, 1, &[1]);
        check(2, 2, &[1, 2]);
        check(2, 4, &[1, 2, 3, 4]);
        check(8, 8, &[1, 2, 3, 4, 5, 6, 7, 8]);
        check(10, 20, &[1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20]);
        check(4, 2, &[1, 2]);
        check(64, 64, &[1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 64]);
    }

    #[test]
    fn five_rounds_are_never_enough_for_an_interval_of_95_percent() {
        assert_eq!([1, 2, 3, 4, 8, 16].map(rounds_needed), [6, 6, 7, 8, 11, 13]);
    }
}
