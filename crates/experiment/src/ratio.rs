//! The unit in which two sides are compared: the logarithm of a ratio.
//!
//! Effects multiply, and "twice as fast" and "half as fast" are equally far from "the same". On logarithms both hold:
//! ratios add up, and swapping the sides only changes the sign.

use serde::{Deserialize, Serialize};

/// The natural logarithm of B over A: 0 is "the same", positive is "B is greater".
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LogRatio(f64);

impl LogRatio {
    /// No difference.
    pub const ZERO: Self = Self(0.0);

    /// Of two measured values; `None` unless both are positive and finite.
    #[must_use]
    pub fn of(a: f64, b: f64) -> Option<Self> {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        (positive(a) && positive(b)).then(|| Self(b.ln() - a.ln()))
    }

    /// From the logarithm itself.
    #[must_use]
    pub fn from_ln(ln: f64) -> Self {
        Self(ln)
    }

    /// The ratio 1 + `percent`/100.
    ///
    /// # Panics
    /// If `percent` is -100 or less: there is no such ratio.
    #[must_use]
    pub fn from_percent(percent: f64) -> Self {
        assert!(percent > -100.0, "a ratio is positive");
        Self((percent / 100.0).ln_1p())
    }

    /// The logarithm itself.
    #[must_use]
    pub fn ln(self) -> f64 {
        self.0
    }

    /// B over A.
    #[must_use]
    pub fn ratio(self) -> f64 {
        self.0.exp()
    }

    /// By how many percent of A is B greater.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.0.exp_m1() * 100.0
    }

    /// How far from "the same", in either direction.
    #[must_use]
    pub fn abs(self) -> Self {
        Self(self.0.abs())
    }

    /// A over B.
    #[must_use]
    pub fn inverse(self) -> Self {
        Self(-self.0)
    }

    /// Halfway between two.
    #[must_use]
    pub fn midpoint(self, other: Self) -> Self {
        Self(f64::midpoint(self.0, other.0))
    }
}

/// A range of ratios, both ends included.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Range {
    /// The lower end.
    pub low: LogRatio,
    /// The upper end.
    pub high: LogRatio,
}

impl Range {
    /// Everything: what is known before the first look.
    pub const EVERYTHING: Self = Self {
        low: LogRatio(f64::NEG_INFINITY),
        high: LogRatio(f64::INFINITY),
    };

    /// Whether "the same" is in it.
    #[must_use]
    pub fn has_zero(&self) -> bool {
        self.low.0 <= 0.0 && 0.0 <= self.high.0
    }

    /// Whether all of it is nearer to "the same" than `floor`.
    #[must_use]
    pub fn is_within(&self, floor: LogRatio) -> bool {
        -floor.0 < self.low.0 && self.high.0 < floor.0
    }

    /// Half of its width.
    #[must_use]
    pub fn half_width(&self) -> LogRatio {
        LogRatio((self.high.0 - self.low.0) / 2.0)
    }

    /// With the sides swapped.
    #[must_use]
    pub fn inverse(&self) -> Self {
        Self {
            low: self.high.inverse(),
            high: self.low.inverse(),
        }
    }
}
