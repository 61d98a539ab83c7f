//! Large tables on large pages.
//!
//! A transaction over ten rows of a table of gigabytes misses ten entries of the processor's address cache on pages of
//! 4 KiB. The kernel is only asked: where it does not follow, or there are no such pages, nothing else changes.

/// From how many bytes on it is worth asking.
const WORTH: usize = 4 << 20;
/// What the kernel wants an address of memory to begin with.
const PAGE: usize = 4096;

/// A vector with room for `n`, on large pages if that is much.
pub(crate) fn vec_on_large_pages<T>(n: usize) -> Vec<T> {
    let mut vec: Vec<T> = Vec::with_capacity(n);
    let bytes = n.saturating_mul(size_of::<T>());
    if bytes >= WORTH {
        ask(vec.as_mut_ptr().cast(), bytes);
    }
    vec
}

#[cfg(all(target_os = "linux", not(miri)))]
fn ask(start: *mut u8, bytes: usize) {
    use nix::sys::mman::{MmapAdvise, madvise};
    let skipped = start.align_offset(PAGE).min(bytes);
    let Some(start) = std::ptr::NonNull::new(start.wrapping_add(skipped)) else {
        return;
    };
    let bytes = (bytes - skipped) / PAGE * PAGE;
    #[expect(
        unsafe_code,
        reason = "tells the kernel how memory of ours will be used"
    )]
    // SAFETY: the range is within a fresh allocation; this advice changes no contents.
    let _ = unsafe { madvise(start.cast(), bytes, MmapAdvise::MADV_HUGEPAGE) };
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn ask(_: *mut u8, _: usize) {
    let _ = PAGE;
}
