//! A value that shares its cache lines with nothing: aligned at its base *and* padded at its tail, which is where
//! hand-made padding goes wrong.

use core::fmt;
use core::ops::{Deref, DerefMut};

use crate::line::APART;

/// A value alone on its cache lines.
///
/// Its address is a multiple of [`APART`](crate::line::APART) and so is its size, so that neither a neighbour before nor
/// one behind it is on its lines, wherever it is: in a struct, an array, a static, on the stack or the heap.
///
/// ```
/// use core::sync::atomic::AtomicU64;
/// use hitm_counters::{Isolated, assert_isolated, line::APART};
///
/// struct Queue {
///     head: Isolated<AtomicU64>, // consumers
///     tail: Isolated<AtomicU64>, // producers
/// }
/// assert_isolated!(Queue, head);
/// assert_isolated!(Queue, tail);
/// assert_eq!(size_of::<Queue>(), 2 * APART);
/// ```
///
/// What is *inside* of it still shares lines: `Isolated<[AtomicU64; 8]>` is eight values on one line,
/// `[Isolated<AtomicU64>; 8]` is eight lines.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "powerpc64",
        all(feature = "line-128", not(target_arch = "s390x")),
        not(any(
            target_arch = "s390x",
            target_arch = "riscv32",
            target_arch = "riscv64",
            target_arch = "arm",
            target_arch = "mips",
            target_arch = "mips64",
            target_arch = "x86"
        ))
    ),
    repr(align(128))
)]
#[cfg_attr(target_arch = "s390x", repr(align(256)))]
#[cfg_attr(
    all(
        not(feature = "line-128"),
        any(
            target_arch = "riscv32",
            target_arch = "riscv64",
            target_arch = "arm",
            target_arch = "mips",
            target_arch = "mips64",
            target_arch = "x86"
        )
    ),
    repr(align(64))
)]
pub struct Isolated<T> {
    value: T,
}

// The attributes above cannot name the constant.
const _: () = assert!(align_of::<Isolated<u8>>() == APART && size_of::<Isolated<u8>>() == APART);

impl<T> Isolated<T> {
    /// Puts a value on lines of its own.
    pub const fn new(value: T) -> Self {
        Self { value }
    }

    /// Takes the value out again.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> Deref for Isolated<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Isolated<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> From<T> for Isolated<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: fmt::Debug> fmt::Debug for Isolated<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Isolated").field(&self.value).finish()
    }
}
