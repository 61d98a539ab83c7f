//! Values alone on their cache line, and prefetching.
//!
//! The story this crate comes from lost a third of its throughput because a cursor that one thread writes for every
//! request landed on the line of a word that all workers read. Here that is a compile error: whatever one thread
//! writes often is a [`Line`], and the structs that hold several assert the distance of their fields.

use std::ops::Deref;

#[cfg(not(any(loom, shuttle)))]
use crate::sync::{AtomicU32, AtomicU64};

/// The distance at which two values do not disturb each other: two lines of 64 bytes, because x86 fetches lines in
/// pairs; also one line of the largest size of the processors Rust runs on widely (Apple's 128).
pub(crate) const APART: usize = 128;

/// A value that shares its line with nothing.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Line<T>(T);

impl<T> Line<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Line<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

const _: () = assert!(align_of::<Line<u8>>() == APART && size_of::<Line<u8>>() == APART);
#[cfg(not(any(loom, shuttle)))]
const _: () =
    assert!(size_of::<Line<AtomicU64>>() == APART && size_of::<Line<AtomicU32>>() == APART);

/// Asserts at compile time that fields of a struct are [`APART`] or more from each other, so that none shares a line.
macro_rules! assert_apart {
    ($type:ty: $($field:ident),+ $(,)?) => {
        #[cfg(not(any(loom, shuttle)))]
        const _: () = {
            let offsets = [$(std::mem::offset_of!($type, $field)),+];
            let mut i = 0;
            while i < offsets.len() {
                assert!(offsets[i] % $crate::line::APART == 0, "a hot field does not begin a line");
                let mut j = 0;
                while j < i {
                    assert!(offsets[i].abs_diff(offsets[j]) >= $crate::line::APART, "two hot fields share a line");
                    j += 1;
                }
                i += 1;
            }
        };
    };
}
pub(crate) use assert_apart;

/// Starts to load the line of an address that will be read or written soon; never faults, whatever the address.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        #[expect(unsafe_code, reason = "a hint to the processor")]
        // SAFETY: prefetching is a hint that accesses nothing as far as the program can tell; any address is allowed.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Starts to take the line of an address that will be written soon; never faults, whatever the address.
///
/// The instruction by name: the compiler's intrinsic becomes a fetch to read on the baseline x86-64, and then the write
/// pays for the line a second time. Processors without the instruction take its code for a hint and do nothing.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[expect(unsafe_code, reason = "a hint to the processor")]
        // SAFETY: prefetching is a hint that accesses nothing as far as the program can tell; any address is allowed.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) address, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
