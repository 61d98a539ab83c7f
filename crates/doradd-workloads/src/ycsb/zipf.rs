//! Ranks by Zipf's law, as in J. Gray, P. Sundaresan, S. Englert, K. Baclawski, P. J. Weinberger: *Quickly generating
//! billion-record synthetic databases*, SIGMOD 1994.
//!
//! Of `n` ranks from 1, rank `i` is to have the probability `i^-θ / ζ`, with `ζ(n) = Σ i^-θ`. From a uniform `u` in [0, 1):
//!
//! ```text
//! rank = 1                         if u·ζ(n) < 1
//!      = 2                         if u·ζ(n) < 1 + 2^-θ
//!      = 1 + ⌊n·(η·u - η + 1)^α⌋   otherwise
//! α = 1/(1-θ),  η = (1 - (2/n)^(1-θ)) / (1 - ζ(2)/ζ(n))
//! ```
//!
//! # Caveats
//! The first two ranks are exact, the others follow a continuous approximation of the law; [`Zipf::probability`] is what
//! is really drawn. Powers come from a library that gives the same bits on every machine, not from the system's.

use doradd::Random;
use thiserror::Error;

/// The exponent of Zipf's law, between 0 (almost uniform) and 1, both excluded: 0.99 is YCSB's.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct Theta(f64);

/// It is no exponent that the formula is for.
#[derive(Error, Clone, Copy, PartialEq, Debug)]
#[error(
    "theta is {0}: Gray's formula is for 0 < theta < 1, such as 0.99; leave it away for uniform keys"
)]
pub struct ThetaError(f64);

impl Theta {
    /// An exponent.
    ///
    /// # Errors
    /// If it is not between 0 and 1.
    pub fn new(theta: f64) -> Result<Self, ThetaError> {
        if theta > 0.0 && theta < 1.0 {
            Ok(Self(theta))
        } else {
            Err(ThetaError(theta))
        }
    }
}

/// Draws ranks, which are given from 0.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: u64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    /// Ranks of so many; sums up as many powers, which takes half a second for ten million.
    ///
    /// Of no ranks, 0 is drawn.
    #[must_use]
    pub fn new(n: u64, theta: Theta) -> Self {
        let n = n.max(1);
        let Theta(theta) = theta;
        // From the small terms to the large ones, so that few bits are lost.
        let zeta: f64 = (1..=n).rev().map(|i| libm::pow(i as f64, -theta)).sum();
        let of_two = 1.0 + libm::pow(2.0, -theta);
        // With one or two ranks the third case never comes.
        let eta = if n > 2 {
            (1.0 - libm::pow(2.0 / n as f64, 1.0 - theta)) / (1.0 - of_two / zeta)
        } else {
            0.0
        };
        Self {
            n,
            theta,
            alpha: 1.0 / (1.0 - theta),
            zeta,
            eta,
        }
    }

    /// Draws one.
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.rank(unit(random))
    }

    /// How often a rank is drawn, exactly: the length of the interval of `u` that gives it.
    #[must_use]
    pub fn probability(&self, rank: u64) -> f64 {
        if rank >= self.n {
            return 0.0;
        }
        self.start(rank + 1) - self.start(rank)
    }

    /// The smallest `u` that gives this rank or a later one.
    fn start(&self, rank: u64) -> f64 {
        let first_two = (1.0 + libm::pow(2.0, -self.theta)) / self.zeta;
        match rank {
            0 => 0.0,
            _ if rank >= self.n => 1.0,
            1 => 1.0 / self.zeta,
            _ => {
                let part = libm::pow(rank as f64 / self.n as f64, 1.0 / self.alpha);
                ((part - 1.0 + self.eta) / self.eta).max(first_two)
            }
        }
    }

    fn rank(&self, u: f64) -> u64 {
        let scaled = u * self.zeta;
        if self.n == 1 || scaled < 1.0 {
            return 0;
        }
        if self.n == 2 || scaled < 1.0 + libm::pow(2.0, -self.theta) {
            return 1;
        }
        let part = libm::pow(self.eta * u - self.eta + 1.0, self.alpha);
        ((self.n as f64 * part) as u64).min(self.n - 1)
    }
}

/// A number in [0, 1) of 53 random bits.
pub(crate) fn unit(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1_u64 << 53) as f64
}
