//! When transactions arrive: by a schedule that does not wait for the system, or as fast as it takes them.
//!
//! With a schedule the load is *open*: a transaction's latency begins when it was due, also if the dispatcher was late to
//! take it. Otherwise a system that stalls would delay the transactions that would have shown it.

use std::fmt;
use std::str::FromStr;

use doradd::Random;
use thiserror::Error;

/// The times between arrivals.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arrivals {
    /// Exponentially distributed with this mean, in nanoseconds: independent users.
    Exponential(f64),
    /// All the same, in nanoseconds.
    Fixed(f64),
    /// None: each transaction arrives when the one before it was taken.
    Saturating,
}

/// It is not a way to arrive.
#[derive(Error, Clone, PartialEq, Eq, Debug)]
#[error(
    "{0:?} is no time between arrivals: give `max`, `exp:NS` or `fixed:NS` with a number of nanoseconds above 0, such as exp:180"
)]
pub struct ArrivalsError(String);

impl FromStr for Arrivals {
    type Err = ArrivalsError;

    fn from_str(text: &str) -> Result<Self, ArrivalsError> {
        let refused = || ArrivalsError(text.to_owned());
        if text == "max" {
            return Ok(Self::Saturating);
        }
        let (kind, nanos) = text.split_once(':').ok_or_else(refused)?;
        let nanos = nanos
            .parse()
            .ok()
            .filter(|nanos: &f64| nanos.is_finite() && *nanos > 0.0);
        match (kind, nanos) {
            ("exp", Some(nanos)) => Ok(Self::Exponential(nanos)),
            ("fixed", Some(nanos)) => Ok(Self::Fixed(nanos)),
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential(nanos) => write!(f, "exp:{nanos}"),
            Self::Fixed(nanos) => write!(f, "fixed:{nanos}"),
            Self::Saturating => f.write_str("max"),
        }
    }
}

/// The times at which transactions are due.
#[derive(Clone, Debug)]
pub struct Schedule {
    arrivals: Arrivals,
    random: Random,
    /// Of the next transaction, in nanoseconds. A fraction is kept, so that a mean of 0.3 is one.
    due: f64,
}

impl Schedule {
    /// A schedule whose first transaction is due one interval after 0.
    #[must_use]
    pub fn new(arrivals: Arrivals, seed: u64) -> Self {
        let mut schedule = Self {
            arrivals,
            random: Random::new(seed),
            due: 0.0,
        };
        schedule.advance();
        schedule
    }

    /// When the next transaction is due, in nanoseconds from the start, if it does not arrive whenever there is room.
    #[must_use]
    #[inline]
    pub fn due(&self) -> Option<u64> {
        match self.arrivals {
            Arrivals::Saturating => None,
            Arrivals::Exponential(_) | Arrivals::Fixed(_) => Some(self.due as u64),
        }
    }

    /// The next transaction has arrived.
    #[inline]
    pub fn advance(&mut self) {
        self.due += match self.arrivals {
            Arrivals::Saturating => 0.0,
            Arrivals::Fixed(nanos) => nanos,
            Arrivals::Exponential(mean) => {
                // In (0, 1], so that the logarithm is finite.
                let unit = ((self.random.bits() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
                -mean * libm::log(unit)
            }
        };
    }
}
