//! Distributions of values with a bounded relative error: log-linear buckets, as in HDR histograms.
//!
//! The bucket of a value is found from its highest bit and the `PRECISION` bits below that, so buckets are exact up to
//! 2^(PRECISION+1) and then as wide as 2^-PRECISION of their value. With `shift` the number of bits that are dropped:
//!
//! ```text
//! index(v) = (shift << PRECISION) + (v >> shift),  shift = max(highest bit of v, PRECISION) - PRECISION
//! ```

use alloc::boxed::Box;
use core::fmt;
use core::ops::RangeInclusive;

use crate::cells::Word;

/// How many buckets a [`Histogram`] needs for values below 2^`bits` with `precision` significant bits.
///
/// ```
/// use hitm_counters::{Histogram, buckets};
///
/// /// Up to a minute in nanoseconds (36 bits), within 1 %.
/// type Latency = Histogram<7, { buckets(7, 36) }>;
/// ```
pub const fn buckets(precision: u32, bits: u32) -> usize {
    assert!(
        bits > precision && bits <= 64 && precision <= 16,
        "a histogram has at most 16 significant bits, and values of more bits than that, at most 64"
    );
    ((bits - precision + 1) as usize) << precision
}

/// A histogram of nanoseconds up to 18 minutes, within 3.2 %: 9 KiB per thread.
pub type LatencyHistogram = Histogram<5, { buckets(5, 40) }>;

/// A distribution of values, each told within 2^-`PRECISION` of itself.
///
/// `N` is made with [`buckets`]. Values beyond the last bucket are counted in it. Each bucket is a monotone counter, and
/// so is the sum of all values: what [`Counter`](crate::Counter) promises holds for each.
#[repr(C)]
pub struct Histogram<const PRECISION: u32, const N: usize> {
    buckets: [Word; N],
    sum: Word,
}

impl<const PRECISION: u32, const N: usize> Histogram<PRECISION, N> {
    /// Counts a value.
    #[inline]
    pub fn record(&self, value: u64) {
        if let Some(bucket) = self.buckets.get(Self::bucket(value)) {
            bucket.add(1);
        }
        self.sum.add(value);
    }

    /// Where a value is counted.
    #[inline(always)]
    pub(crate) fn bucket(value: u64) -> usize {
        const {
            assert!(
                PRECISION <= 16 && N >= 2 << PRECISION,
                "too few buckets: make N with hitm_counters::buckets(PRECISION, bits)"
            );
        }
        index(PRECISION, value).min(N - 1)
    }
}

impl<const PRECISION: u32, const N: usize> fmt::Debug for Histogram<PRECISION, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Histogram")
    }
}

#[inline(always)]
const fn index(precision: u32, value: u64) -> usize {
    let highest = 63 - (value | 1 << precision).leading_zeros();
    let shift = highest - precision;
    ((shift as usize) << precision) + (value >> shift) as usize
}

/// The values that a bucket is for.
fn range(precision: u32, index: usize) -> RangeInclusive<u64> {
    let index = index as u64;
    let shift = (index >> precision).saturating_sub(1);
    let mantissa = index - (shift << precision);
    let low = mantissa << shift;
    low..=low + ((1 << shift) - 1)
}

/// What a [`Histogram`] held when it was read.
#[derive(Clone, PartialEq, Eq)]
pub struct HistogramValues {
    precision: u32,
    buckets: Box<[u64]>,
    sum: u64,
}

impl HistogramValues {
    pub(crate) fn from_words(precision: u32, words: &[u64]) -> Self {
        let (sum, buckets) = words.split_last().unwrap_or((&0, &[]));
        Self {
            precision,
            buckets: buckets.into(),
            sum: *sum,
        }
    }

    #[cfg(feature = "serde")]
    pub(crate) fn precision(&self) -> u32 {
        self.precision
    }

    #[cfg(feature = "serde")]
    pub(crate) fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.buckets
            .iter()
            .fold(0_u64, |sum, n| sum.wrapping_add(*n))
    }

    /// The sum of all values, modulo 2⁶⁴.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The mean, if anything was recorded.
    pub fn mean(&self) -> Option<f64> {
        let count = self.count();
        (count > 0).then(|| self.sum as f64 / count as f64)
    }

    /// The value that a share of `quantile` of the recorded ones does not exceed, as the upper end of its bucket.
    ///
    /// ```
    /// use hitm_counters::{LatencyHistogram, PerThread};
    ///
    /// let latencies = PerThread::<LatencyHistogram>::new();
    /// let own = latencies.claim("worker");
    /// (1..=1000).for_each(|nanos| own.record(nanos));
    /// let values = latencies.snapshot().values();
    /// let median = values.quantile(0.5).unwrap();
    /// assert!((500..=516).contains(&median));
    /// ```
    ///
    /// `None` if nothing was recorded or `quantile` is not from 0 to 1.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let count = self.count();
        if count == 0 || !(0.0..=1.0).contains(&quantile) {
            return None;
        }
        let exact = quantile * count as f64;
        let whole = exact as u64;
        // The smallest number of values that is at least that share; there is no `ceil` without std.
        let rank = if (whole as f64) < exact {
            whole + 1
        } else {
            whole
        };
        let rank = rank.clamp(1, count);
        let mut seen = 0_u64;
        self.iter()
            .find(|(_, n)| {
                seen = seen.saturating_add(*n);
                seen >= rank
            })
            .map(|(range, _)| *range.end())
    }

    /// The buckets that hold anything, from the smallest values up. The last bucket also holds all larger values.
    pub fn iter(&self) -> impl Iterator<Item = (RangeInclusive<u64>, u64)> {
        let counts = self.buckets.iter().enumerate();
        counts
            .filter(|(_, n)| **n > 0)
            .map(|(index, n)| (self.range(index), *n))
    }

    /// How many values are at most `2^bits - 1`: exact, because buckets end there. `None` beyond the last bucket.
    pub(crate) fn below_bits(&self, bits: u32) -> Option<u64> {
        let end = index(self.precision, 1 << bits.min(63));
        let below = self.buckets.get(..end)?;
        (end < self.buckets.len()).then(|| below.iter().fold(0_u64, |sum, n| sum.wrapping_add(*n)))
    }

    fn range(&self, index: usize) -> RangeInclusive<u64> {
        let range = range(self.precision, index);
        if index + 1 == self.buckets.len() {
            *range.start()..=u64::MAX
        } else {
            range
        }
    }
}

impl fmt::Debug for HistogramValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps_and_keep_their_precision() {
        for precision in [0, 1, 5, 7, 16] {
            let n = buckets(precision, 64);
            let mut next = 0_u64;
            for i in 0..n {
                let range = range(precision, i);
                assert_eq!(*range.start(), next, "bucket {i} of precision {precision}");
                assert_eq!(index(precision, *range.start()), i);
                assert_eq!(index(precision, *range.end()), i);
                let width = range.end() - range.start();
                assert!(width <= range.start() >> precision);
                next = range.end().wrapping_add(1);
            }
            assert_eq!(next, 0, "the last bucket ends at the largest value");
        }
    }
}
