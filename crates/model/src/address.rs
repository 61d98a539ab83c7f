//! Addresses, in the two spaces they live in.
//!
//! An SVMA (stated virtual memory address) is what the file says; an AVMA (actual virtual memory address) is
//! where it is in a process. They differ by the load bias of the file's mapping.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The address `bytes` further on; wraps as the processor's address arithmetic does.
            #[must_use]
            pub const fn wrapping_add(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }

            /// The address `bytes` earlier; wraps as the processor's address arithmetic does.
            #[must_use]
            pub const fn wrapping_sub(self, bytes: u64) -> Self {
                Self(self.0.wrapping_sub(bytes))
            }

            /// Bytes from `base` to `self`, if `self` is not before it.
            #[must_use]
            pub const fn offset_from(self, base: Self) -> Option<u64> {
                self.0.checked_sub(base.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

address! {
    /// A stated virtual memory address: the one written in an ELF file.
    Svma
}
address! {
    /// An actual virtual memory address: the one in a running process.
    Avma
}

/// What is added to an [`Svma`] of a file to get its [`Avma`] in one process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bias(pub u64);

impl Bias {
    /// Where the file's address is in the process.
    #[must_use]
    pub const fn to_avma(self, svma: Svma) -> Avma {
        Avma(svma.0.wrapping_add(self.0))
    }

    /// Where the process's address is in the file.
    #[must_use]
    pub const fn to_svma(self, avma: Avma) -> Svma {
        Svma(avma.0.wrapping_sub(self.0))
    }
}

macro_rules! range {
    ($(#[$doc:meta])* $name:ident of $address:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        pub struct $name {
            /// First address inside.
            pub start: $address,
            /// First address behind.
            pub end: $address,
        }

        impl $name {
            /// The range from `start` up to, not including, `end`.
            #[must_use]
            pub const fn new(start: $address, end: $address) -> Self {
                Self { start, end }
            }

            /// Whether `address` is inside.
            #[must_use]
            pub const fn contains(&self, address: $address) -> bool {
                self.start.0 <= address.0 && address.0 < self.end.0
            }

            /// Bytes inside; 0 where the end is not after the start.
            #[must_use]
            pub const fn len(&self) -> u64 {
                self.end.0.saturating_sub(self.start.0)
            }

            /// Whether nothing is inside.
            #[must_use]
            pub const fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}..{}", self.start, self.end)
            }
        }
    };
}

range! {
    /// A half-open range of file addresses.
    SvmaRange of Svma
}
range! {
    /// A half-open range of process addresses.
    AvmaRange of Avma
}
