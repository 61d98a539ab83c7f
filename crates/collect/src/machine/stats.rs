//! Medians and intervals that stay honest on a noisy machine.
//!
//! Everything here rests on ranks: one window that the hypervisor interrupted moves a mean, but not a median.

/// The middle and the extremes of several values.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub most: f64,
    /// How many there were.
    pub count: usize,
}

impl Spread {
    /// The spread of `values`; `None` without any.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.retain(|value| value.is_finite());
        values.sort_by(f64::total_cmp);
        Some(Self {
            median: median_of_sorted(&values)?,
            least: *values.first()?,
            most: *values.last()?,
            count: values.len(),
        })
    }
}

/// The median of ratios, each from one interleaved pair of windows, with what is known about it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Ratio {
    /// The middle one.
    pub median: f64,
    /// Where the true median lies with at least 95 % confidence; `None` with fewer than 6 pairs.
    pub interval: Option<(f64, f64)>,
    /// Pairs it rests on.
    pub pairs: usize,
    /// Pairs left out because their threads did not run side by side.
    pub left_out: usize,
}

impl Ratio {
    /// The median of `ratios`; `None` without any.
    #[must_use]
    pub fn of(mut ratios: Vec<f64>, left_out: usize) -> Option<Self> {
        ratios.retain(|ratio| ratio.is_finite() && *ratio > 0.0);
        ratios.sort_by(f64::total_cmp);
        Some(Self {
            median: median_of_sorted(&ratios)?,
            interval: median_ranks(ratios.len())
                .and_then(|(low, high)| Some((*ratios.get(low)?, *ratios.get(high)?))),
            pairs: ratios.len(),
            left_out,
        })
    }
}

fn median_of_sorted(values: &[f64]) -> Option<f64> {
    let upper = *values.get(values.len() / 2)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some((values.get(values.len() / 2 - 1)? + upper) / 2.0)
}

/// The ranks (from 0) between which the median of the population lies with at least 95 % confidence.
///
/// Each of `count` values is above the median with probability ½, so the number above it is binomial: the interval
/// from the `k`-th least to the `k`-th greatest misses with probability `2 · P(B(count, ½) < k)`.
fn median_ranks(count: usize) -> Option<(usize, usize)> {
    let mut tail = 0.0;
    let mut term = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut rank = None;
    for k in 0..count / 2 {
        tail += term;
        if tail > 0.025 {
            break;
        }
        rank = Some(k);
        term *= (count - k) as f64 / (k + 1) as f64;
    }
    rank.map(|k| (k, count - 1 - k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_ranks_match_the_tables_of_the_sign_test() {
        // Pairs of (n, k) for 95 %: no interval below 6 values.
        for (count, expected) in [
            (5, None),
            (6, Some((0, 5))),
            (9, Some((1, 7))),
            (20, Some((5, 14))),
        ] {
            assert_eq!(median_ranks(count), expected, "{count} values");
        }
    }

    #[test]
    fn one_wild_value_moves_neither_median_nor_interval_far() {
        let mut ratios = vec![1.0; 19];
        ratios.push(500.0);
        let ratio = Ratio::of(ratios, 3).unwrap();
        assert_eq!((ratio.median, ratio.interval), (1.0, Some((1.0, 1.0))));
        assert_eq!((ratio.pairs, ratio.left_out), (20, 3));
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(Spread::of(vec![]), None);
        assert_eq!(Ratio::of(vec![f64::NAN, 0.0], 0), None);
    }
}
