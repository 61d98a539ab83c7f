//! When an experiment is looked at, and how much of the permitted error each look may spend.
//!
//! Who looks after every pair and stops at the first interval without zero is wrong far more often than the interval
//! says. Here the looks are fixed before the first run, and the permitted error is divided among them in proportion to
//! the pairs that came since the look before. The probability to be wrong at *any* look is at most the sum of what the
//! looks spend (Boole's inequality), whatever the noise and whatever rule stops the experiment. Tighter bounds exist for
//! normal noise (K. K. G. Lan and D. L. DeMets, "Discrete sequential boundaries for clinical trials", Biometrika 70
//! (1983)); run times are not normal.

use serde::{Deserialize, Serialize};

use crate::signed_rank::least_p_value;

/// The probability of error of all statements about a row together: a 95 % interval.
pub const ERROR: f64 = 0.05;

/// Sizes at which one may look. All are even, so that each order of the two sides comes equally often.
const SIZES: [usize; 13] = [6, 8, 12, 16, 20, 26, 32, 40, 52, 64, 80, 100, 128];

/// One planned look.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Look {
    /// Pairs that must be there.
    pub pairs: usize,
    /// Of the permitted error, the part that this look may spend: from 0 to 1.
    pub spends: f64,
}

/// All looks of a row, planned before its first run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Looks {
    looks: Vec<Look>,
    rows: usize,
}

impl Looks {
    /// Looks for at most so many pairs, of a suite of so many rows.
    ///
    /// The more rows, the less error a row alone may spend to stop early, and the later is the first look that could. The
    /// last look is at the greatest size that is not above `most_pairs`; if that is too small to decide
    /// anything, there is no look.
    #[must_use]
    pub fn plan(most_pairs: usize, rows: usize) -> Self {
        let rows = rows.max(1);
        let last = most_pairs - most_pairs % 2;
        let mut sizes: Vec<usize> = SIZES.iter().copied().filter(|n| *n < last).collect();
        sizes.push(last);
        let mut looks = Vec::new();
        let mut before = 0;
        for pairs in sizes {
            let spends = (pairs - before) as f64 / last as f64;
            if least_p_value(pairs) <= spends * ERROR / rows as f64 {
                looks.push(Look { pairs, spends });
                before = pairs;
            }
        }
        Self { looks, rows }
    }

    /// The look that is due with exactly so many pairs.
    #[must_use]
    pub fn at(&self, pairs: usize) -> Option<Look> {
        self.looks.iter().copied().find(|look| look.pairs == pairs)
    }

    /// All of them, the earliest first.
    pub fn iter(&self) -> impl Iterator<Item = Look> + '_ {
        self.looks.iter().copied()
    }

    /// Pairs after which nothing is run any more; 0 if there is no look.
    #[must_use]
    pub fn most_pairs(&self) -> usize {
        self.looks.last().map_or(0, |look| look.pairs)
    }

    /// Rows of the suite that they were planned for.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_permitted_error_is_spent() {
        for most in 0..200 {
            for rows in [1, 2, 6, 50] {
                let looks = Looks::plan(most, rows);
                let spent: f64 = looks.iter().map(|look| look.spends).sum();
                assert!(spent <= 1.0 + 1e-9, "{most} {rows}: {spent}");
                assert!(looks.most_pairs() <= most);
                for look in looks.iter() {
                    let could = least_p_value(look.pairs) <= look.spends * ERROR / rows as f64;
                    assert!(could, "{most} {rows}: a look that decides nothing");
                }
            }
        }
    }

    #[test]
    fn the_usual_plan() {
        let sizes = |most, rows| -> Vec<usize> {
            Looks::plan(most, rows)
                .iter()
                .map(|look| look.pairs)
                .collect()
        };
        assert_eq!(sizes(20, 1), [8, 12, 16, 20]);
        assert_eq!(sizes(20, 6), [12, 16, 20]);
        assert_eq!(sizes(4, 1), [0; 0]);
    }
}
