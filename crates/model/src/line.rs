//! Cache lines: their size is a value read from a machine, never a literal.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Avma;

/// The coherence granule of a machine, in bytes; a power of two from 16 to 4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct LineSize(u32);

/// A number that cannot be a line size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineSizeError(u32);

impl fmt::Display for LineSizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is not a line size (a power of two from 16 to 4096)",
            self.0
        )
    }
}

impl std::error::Error for LineSizeError {}

impl LineSize {
    /// What is assumed where a machine does not tell: the line size of every x86-64 processor so far.
    pub const ASSUMED: Self = Self(64);

    /// A line size of `bytes`.
    ///
    /// # Errors
    /// If `bytes` is not a power of two from 16 to 4096.
    pub const fn new(bytes: u32) -> Result<Self, LineSizeError> {
        if bytes.is_power_of_two() && bytes >= 16 && bytes <= 4096 {
            Ok(Self(bytes))
        } else {
            Err(LineSizeError(bytes))
        }
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.0
    }

    /// The line that holds `address`.
    #[must_use]
    pub const fn line_of(self, address: Avma) -> LineAddress {
        LineAddress(Avma(address.0 & !(self.0 as u64 - 1)))
    }

    /// The offset of `address` in its line, in bytes.
    #[must_use]
    pub const fn offset_of(self, address: Avma) -> u32 {
        (address.0 & (self.0 as u64 - 1)) as u32
    }

    /// The parts of `size` bytes at `address`, line by line.
    ///
    /// An access that crosses a line border yields one part per line it touches. An access of no bytes yields none.
    pub fn parts(self, address: Avma, size: u32) -> impl Iterator<Item = (LineAddress, ByteRange)> {
        let mut at = address;
        let mut left = size;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let start = self.offset_of(at);
            let len = left.min(self.0 - start);
            let part = (
                self.line_of(at),
                ByteRange {
                    start,
                    end: start + len,
                },
            );
            at = at.wrapping_add(u64::from(len));
            left -= len;
            Some(part)
        })
    }
}

impl TryFrom<u32> for LineSize {
    type Error = LineSizeError;
    fn try_from(bytes: u32) -> Result<Self, LineSizeError> {
        Self::new(bytes)
    }
}

impl From<LineSize> for u32 {
    fn from(size: LineSize) -> u32 {
        size.0
    }
}

impl fmt::Display for LineSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The address of a line's first byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LineAddress(pub Avma);

impl fmt::Display for LineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes of one line: offsets from its start, half-open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct ByteRange {
    /// Offset of the first byte inside.
    pub start: u32,
    /// Offset of the first byte behind.
    pub end: u32,
}

impl ByteRange {
    /// Whether the two have a byte in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Bytes inside.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether nothing is inside.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The smallest range that covers both.
    #[must_use]
    pub fn hull(self, other: Self) -> Self {
        Self {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_cover_the_access_once_and_stay_in_their_lines(at in 0u64..1 << 40, size in 0u32..300, log in 4u32..9) {
            let line = LineSize::new(1 << log).unwrap();
            let mut next = Avma(at);
            let mut total = 0;
            for (base, range) in line.parts(Avma(at), size) {
                prop_assert_eq!(base.0.wrapping_add(u64::from(range.start)), next);
                prop_assert!(range.end <= line.bytes() && !range.is_empty());
                next = base.0.wrapping_add(u64::from(range.end));
                total += range.len();
            }
            prop_assert_eq!(total, size);
        }
    }

    #[test]
    fn only_powers_of_two_are_line_sizes() {
        assert_eq!(LineSize::new(64), Ok(LineSize::ASSUMED));
        assert!(LineSize::new(128).is_ok());
        for bad in [0, 1, 8, 48, 63, 8192] {
            assert_eq!(LineSize::new(bad), Err(LineSizeError(bad)));
        }
    }
}
