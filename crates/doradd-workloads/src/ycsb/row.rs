//! A row: words on lines of its own.

use std::hash::{Hash, Hasher};

/// A row of `WORDS` words of eight bytes; 128 of them are the 1 KiB of YCSB.
#[derive(Clone, PartialEq, Eq, Debug)]
#[repr(align(64))]
pub struct Row<const WORDS: usize>([u64; WORDS]);

/// Bytes that a write changes, as in YCSB: one field of ten.
const WRITTEN_WORDS: usize = 13;

impl<const WORDS: usize> Row<WORDS> {
    /// The row with this number as it is in the beginning.
    #[must_use]
    pub fn new(number: usize) -> Self {
        Self([number as u64; WORDS])
    }

    /// Reads all of the row.
    #[inline]
    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, word| word.wrapping_add(sum))
    }

    /// Writes the first field, of what it was and of `what`, and gives it. Two writes in another order leave another row.
    #[inline]
    pub(crate) fn write(&mut self, what: u64) -> u64 {
        let value = fold(self.0[0], what);
        let written = WRITTEN_WORDS.min(WORDS);
        self.0[..written].fill(value);
        value
    }
}

/// All words one after the other; faster than one by one.
impl<const WORDS: usize> Hash for Row<WORDS> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.0 {
            state.write_u64(word);
        }
    }
}

/// Makes one word of two, differently if they come the other way round.
#[inline]
pub(crate) fn fold(first: u64, second: u64) -> u64 {
    // A rotation, a bitwise and an arithmetic step: they do not commute, so neither do folds.
    (first.rotate_left(23) ^ second).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
