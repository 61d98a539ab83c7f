//! One number for a whole state, to compare runs by.

use std::fmt;
use std::hash::{Hash, Hasher};

use crate::replay::app::mix;

/// A fingerprint of a state: equal states have equal ones, in every run and on every machine of the same word size.
/// Different states have the same one by chance only (about one in 2^64); it is no protection against forgery.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateDigest(u64);

impl StateDigest {
    pub(crate) fn of<T: Hash>(values: impl Iterator<Item = T>) -> Self {
        let mut hasher = Mixer(0);
        for value in values {
            value.hash(&mut hasher);
            hasher.write_u8(0xFF);
        }
        Self(hasher.finish())
    }

    /// The digest of two states together, in this order.
    #[must_use]
    pub fn and(self, next: Self) -> Self {
        Self(mix(self.0.rotate_left(17) ^ mix(next.0)))
    }
}

impl fmt::Display for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for StateDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateDigest({self})")
    }
}

/// A hasher that is the same everywhere, unlike the standard library's.
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        mix(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            self.write_u64(u64::from_le_bytes(eight));
        }
        for &byte in words.remainder() {
            self.write_u8(byte);
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 ^= self.0 >> 32;
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::StateDigest;

    #[test]
    fn a_digest_sees_values_and_their_order() {
        let of = |values: &[&str]| StateDigest::of(values.iter());
        assert_eq!(of(&["a", "b"]), of(&["a", "b"]));
        assert_ne!(of(&["a", "b"]), of(&["b", "a"]));
        assert_ne!(of(&["ab"]), of(&["a", "b"]));
        assert_ne!(of(&["a"]).and(of(&["b"])), of(&["b"]).and(of(&["a"])));
    }
}
