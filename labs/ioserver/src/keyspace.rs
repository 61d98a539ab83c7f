//! Keys and values. The main thread alone has it, so nothing here is shared.

use std::collections::HashMap;

/// What a key with its value takes beside their bytes, about: two boxes, a slot of the table, the allocator's own.
const ENTRY_BYTES: usize = 96;

/// All keys with their values.
#[derive(Debug, Default)]
pub(crate) struct Keyspace {
    entries: HashMap<Box<[u8]>, Box<[u8]>>,
    used: usize,
}

impl Keyspace {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of keys and values, with what each entry takes, about.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&[u8]> {
        self.entries.get(key).map(AsRef::as_ref)
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        match self.entries.get_mut(key) {
            // The same size needs no new memory.
            Some(old) if old.len() == value.len() => old.copy_from_slice(value),
            Some(old) => {
                self.used = self.used - old.len() + value.len();
                *old = value.into();
            }
            None => {
                self.used += key.len() + value.len() + ENTRY_BYTES;
                self.entries.insert(key.into(), value.into());
            }
        }
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(value) = self.entries.remove(key) else {
            return false;
        };
        self.used -= key.len() + value.len() + ENTRY_BYTES;
        true
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_follows_what_is_there() {
        let mut keys = Keyspace::default();
        keys.set(b"a", &[0; 50]);
        keys.set(b"bc", b"");
        assert_eq!(keys.used_bytes(), 1 + 50 + 2 + 2 * ENTRY_BYTES);
        keys.set(b"a", &[0; 7]);
        keys.set(b"bc", b"12345678");
        assert_eq!(keys.used_bytes(), 1 + 7 + 2 + 8 + 2 * ENTRY_BYTES);
        assert!(keys.remove(b"a") && !keys.remove(b"a"));
        assert_eq!((keys.len(), keys.get(b"bc")), (1, Some(&b"12345678"[..])));
        assert!(keys.remove(b"bc"));
        assert_eq!((keys.len(), keys.used_bytes()), (0, 0));
    }
}
