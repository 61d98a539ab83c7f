//! What a variant does to the layout.

use thiserror::Error;

use crate::lots::Lots;

/// What differs from the base.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// Variables lie so many bytes further on.
    Shift {
        /// By how many.
        bytes: u32,
    },
    /// Object files, and variables with sections of their own, come in another order.
    Shuffle {
        /// Which of the variants this is, from 1.
        number: u32,
        /// Decides about the order.
        seed: u64,
    },
    /// The same file with a larger environment, so that the stack begins elsewhere.
    Environment {
        /// Which of the variants this is, from 1.
        number: u32,
        /// Bytes more.
        bytes: u32,
    },
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shift { bytes } => write!(f, "shift-{bytes}"),
            Self::Shuffle { number, .. } => write!(f, "shuffle-{number}"),
            Self::Environment { number, .. } => write!(f, "env-{number}"),
        }
    }
}

impl Change {
    /// Whether it takes a build of its own.
    #[must_use]
    pub fn is_build(self) -> bool {
        !matches!(self, Self::Environment { .. })
    }
}

/// Which variants there are to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds {
    /// Variables moved by 8, 16, … bytes.
    pub shift: bool,
    /// So many other orders.
    pub shuffle: u32,
    /// So many other sizes of the environment.
    pub environment: u32,
}

impl Default for Kinds {
    fn default() -> Self {
        Self {
            shift: true,
            shuffle: 3,
            environment: 2,
        }
    }
}

/// Why the kinds of variants are not understood.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0:?} is none of shift, shuffle, shuffle=N, env, env=N with N from 1 to 50")]
pub struct KindsError(String);

impl std::str::FromStr for Kinds {
    type Err = KindsError;

    /// `shift,shuffle=4,env=2`.
    fn from_str(text: &str) -> Result<Self, KindsError> {
        const MOST: u32 = 50;
        let usual = Self::default();
        let mut kinds = Self {
            shift: false,
            shuffle: 0,
            environment: 0,
        };
        for word in text.split(',').map(str::trim) {
            let wrong = || KindsError(word.to_owned());
            let (kind, count) = match word.split_once('=') {
                Some((kind, count)) => {
                    let count = count.parse().ok().filter(|n| (1..=MOST).contains(n));
                    (kind, Some(count.ok_or_else(wrong)?))
                }
                None => (word, None),
            };
            match (kind, count) {
                ("shift", None) => kinds.shift = true,
                ("shuffle", count) => kinds.shuffle = count.unwrap_or(usual.shuffle),
                ("env", count) => kinds.environment = count.unwrap_or(usual.environment),
                _ => return Err(wrong()),
            }
        }
        Ok(kinds)
    }
}

/// Distances between two shifts: what compilers align most variables to.
const STEP: u32 = 8;
/// The environment grows by at most so much: a page.
const MOST_ENVIRONMENT: usize = 4096;

/// The variants. Variables are shifted over one unit of so many bytes: a line, or the pair of lines that some processors
/// fetch together.
#[must_use]
pub fn changes(kinds: Kinds, unit: u32, seed: u64) -> Vec<Change> {
    let mut lots = Lots::new(seed);
    let shifts = (STEP..unit).step_by(STEP as usize);
    let mut all: Vec<Change> = shifts
        .filter(|_| kinds.shift)
        .map(|bytes| Change::Shift { bytes })
        .collect();
    all.extend((1..=kinds.shuffle).map(|number| Change::Shuffle {
        number,
        seed: lots.bits(),
    }));
    all.extend((1..=kinds.environment).map(|number| Change::Environment {
        number,
        bytes: lots.below(MOST_ENVIRONMENT) as u32 + 1,
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_what_was_asked_for() {
        let kinds = |text: &str| text.parse::<Kinds>();
        let some = |shift, shuffle, environment| {
            Ok(Kinds {
                shift,
                shuffle,
                environment,
            })
        };
        assert_eq!(kinds("shift"), some(true, 0, 0));
        assert_eq!(kinds("shift,shuffle=4, env"), some(true, 4, 2));
        assert_eq!(kinds("shuffle"), some(false, 3, 0));
        for bad in ["", "shifts", "shuffle=0", "env=51", "shift=3", "env="] {
            assert!(kinds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shifts_cover_a_unit_and_lots_come_from_the_seed() {
        let names = |unit, seed| -> Vec<String> {
            let all = changes(Kinds::default(), unit, seed);
            all.iter().map(ToString::to_string).collect()
        };
        let expected = "shift-8 shift-16 shift-24 shift-32 shift-40 shift-48 shift-56 \
                        shuffle-1 shuffle-2 shuffle-3 env-1 env-2";
        assert_eq!(names(64, 1).join(" "), expected);
        assert!(names(128, 1).contains(&"shift-120".to_owned()));
        let all = |seed| changes(Kinds::default(), 64, seed);
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
    }
}
