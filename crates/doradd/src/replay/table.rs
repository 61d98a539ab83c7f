//! Rows, and the tail of each row's chain of transactions.
//!
//! A row's tail is one word in an array of its own, not beside the row: the dispatcher reads and writes tails, workers
//! read and write rows, and neither ever touches the other's lines. The tails of a million rows are 8 MB.

use std::cell::UnsafeCell;
use std::fmt;
use std::hash::Hash;

use crate::pages::vec_on_large_pages;
use crate::replay::digest::StateDigest;
use crate::sync::{AtomicU64, Ordering};

/// Rows that transactions of a log name by their number.
///
/// Only one replay can use a table at a time; it seals the table with its first access and lets go when it ends.
pub struct Table<T> {
    rows: Box<[UnsafeCell<T>]>,
    tails: Box<[UnsafeCell<u64>]>,
    /// Who may use the cells: 0 is nobody, else the address of something that lives as long as its replay.
    owner: AtomicU64,
}

#[expect(
    unsafe_code,
    reason = "cells that belong to the replay which sealed the table"
)]
mod shared {
    use super::Table;

    // SAFETY: tails are touched by the sealing replay's dispatcher only, whose stages hand them to each other. Rows are
    // touched by the transaction that has acquired them: `&mut` by one at a time (Send), or `&` by several (Sync).
    unsafe impl<T: Send + Sync> Sync for Table<T> {}
}

/// A row's tail; see [`crate::replay::spawn`] for what the word says.
pub(crate) type Tail = UnsafeCell<u64>;

/// What a replay does with a table whatever its rows are.
pub(crate) trait Sealed {
    /// Lets others use the table.
    fn unseal(&self);
}

impl<T> Sealed for Table<T> {
    fn unseal(&self) {
        // Release: what the replay did to rows and tails.
        self.owner.store(0, Ordering::Release);
    }
}

impl<T> Table<T> {
    const HAS_SIZE: () = assert!(size_of::<T>() > 0, "rows need a size, to be told apart");

    /// A table of `n` rows, each made by its number. Large tables ask the kernel for large pages.
    pub fn new(n: usize, row: impl FnMut(usize) -> T) -> Self {
        let () = Self::HAS_SIZE;
        let mut rows = vec_on_large_pages(n);
        rows.extend((0..n).map(row).map(UnsafeCell::new));
        let mut tails = vec_on_large_pages(n);
        tails.extend((0..n).map(|_| UnsafeCell::new(0)));
        Self {
            rows: rows.into(),
            tails: tails.into(),
            owner: AtomicU64::new(0),
        }
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// A row, to look at or change between replays.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row_mut(&mut self, row: usize) -> &mut T {
        self.rows[row].get_mut()
    }

    /// All rows in order.
    pub fn rows_mut(&mut self) -> impl ExactSizeIterator<Item = &mut T> {
        self.rows.iter_mut().map(UnsafeCell::get_mut)
    }

    /// A fingerprint of all rows, to compare runs by.
    ///
    /// # Panics
    /// While a replay uses the table.
    #[must_use]
    pub fn state_digest(&self) -> StateDigest
    where
        T: Hash + Send + Sync,
    {
        let me = 0u8;
        let taken = self.take(std::ptr::from_ref(&me).addr() as u64);
        assert!(taken, "a replay uses the table; take its digest afterwards");
        #[expect(unsafe_code, reason = "the table is sealed by us")]
        // SAFETY: nobody else uses a row while we own the table.
        let rows = self.rows.iter().map(|row| unsafe { &*row.get() });
        let digest = StateDigest::of(rows);
        self.unseal();
        digest
    }

    /// Whether this owner has sealed the table.
    #[inline(always)]
    pub(crate) fn is_sealed_by(&self, owner: u64) -> bool {
        self.owner.load(Ordering::Relaxed) == owner
    }

    /// Makes somebody the owner of a table that nobody uses; whether that worked.
    pub(crate) fn take(&self, owner: u64) -> bool {
        // Acquire: what the last owner did.
        self.owner
            .compare_exchange(0, owner, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Forgets the transactions of earlier replays.
    ///
    /// # Safety
    /// The caller owns the table, and none of its transactions has named a row yet.
    #[expect(unsafe_code, reason = "the table is sealed by the caller")]
    pub(crate) unsafe fn forget(&self) {
        for tail in &self.tails {
            // Written only where it differs: untouched pages stay untouched.
            // SAFETY: as the caller promises.
            let word = unsafe { *tail.get() };
            if word != 0 {
                // SAFETY: as above.
                unsafe { *tail.get() = 0 };
            }
        }
    }

    /// A row and its tail.
    #[inline(always)]
    pub(crate) fn place(&self, row: usize) -> Option<(*mut T, &Tail)> {
        let tail = self.tails.get(row)?;
        Some((self.rows[row].get(), tail))
    }

    /// Whether a pointer is to one of these rows, given that it is to a row of some table.
    #[inline(always)]
    pub(crate) fn has(&self, row: *mut u8) -> bool {
        let first = self.rows.as_ptr().addr();
        row.addr().wrapping_sub(first) < size_of_val(&*self.rows)
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("rows", &self.len())
            .finish_non_exhaustive()
    }
}
