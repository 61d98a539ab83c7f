//! What an instruction does to memory.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of one access.
///
/// On x86-64 an atomic load or store is a plain `mov`, so only read-modify-write operations can be told to be atomic
/// from the instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum AccessKind {
    /// Loads.
    Read,
    /// Stores.
    Write,
    /// Loads and stores, not atomically (`add [m], r`).
    Update,
    /// Loads and stores in one atomic step (`lock add`, `xchg`, `lock cmpxchg`).
    Atomic,
}

impl AccessKind {
    /// Whether the line must be owned (exclusive) to do it.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }

    /// Whether the value is loaded.
    #[must_use]
    pub const fn reads(self) -> bool {
        !matches!(self, Self::Write)
    }
}

/// A set of [`AccessKind`]s.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccessKinds(u8);

impl AccessKinds {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The set with `kind` added.
    #[must_use]
    pub const fn with(self, kind: AccessKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// The elements of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `kind` is in it.
    #[must_use]
    pub const fn contains(self, kind: AccessKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether any of them writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        self.0 & !(1 << AccessKind::Read as u8) != 0
    }

    /// Whether any of them reads.
    #[must_use]
    pub const fn reads(self) -> bool {
        self.0 & !(1 << AccessKind::Write as u8) != 0
    }

    /// Whether any of them is an atomic read-modify-write.
    #[must_use]
    pub const fn atomic(self) -> bool {
        self.contains(AccessKind::Atomic)
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl From<AccessKind> for AccessKinds {
    fn from(kind: AccessKind) -> Self {
        Self::NONE.with(kind)
    }
}

impl FromIterator<AccessKind> for AccessKinds {
    fn from_iter<I: IntoIterator<Item = AccessKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}

/// `R`, `W`, `RW`, and `atomic` where a locked read-modify-write is among them.
impl fmt::Display for AccessKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match (self.atomic(), self.reads(), self.writes()) {
            (true, ..) => "atomic",
            (false, true, true) => "RW",
            (false, true, false) => "R",
            (false, false, true) => "W",
            (false, false, false) => "-",
        })
    }
}

impl fmt::Debug for AccessKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessKinds({self})")
    }
}
