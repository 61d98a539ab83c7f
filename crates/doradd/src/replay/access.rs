//! How a transaction names its rows, and how it gets at them once it holds them.

use std::fmt;

use crate::line::APART;
use crate::replay::outcome::Fault;
use crate::replay::table::{Sealed, Table, Tail};
use crate::replay::window::Rows;

/// Takes the rows a transaction names.
// It lies on the stack of who replays, beside what all workers read of the replay, and is written for every row that is
// named: on lines of its own. `hitm run` found it on a line with the window, with at most 9 % of the threads' time at it.
#[repr(align(128))]
pub struct Access<'a> {
    owner: u64,
    sealed: Vec<&'a dyn Sealed>,
    max: usize,
    n: usize,
    writes: u64,
    fault: Option<Fault>,
    rows: Box<[*mut u8]>,
    tails: Box<[*const Tail]>,
}

const _: () = assert!(align_of::<Access<'_>>() == APART);

#[expect(
    unsafe_code,
    reason = "pointers into tables that outlive the replay, moved with it"
)]
mod shared {
    use super::Access;

    // SAFETY: an access is used by one thread at a time, which may be a stage's; tables are Sync.
    unsafe impl Send for Access<'_> {}
}

impl<'a> Access<'a> {
    pub(crate) fn new(owner: u64, max: usize) -> Self {
        Self {
            owner,
            sealed: Vec::new(),
            max,
            n: 0,
            writes: 0,
            fault: None,
            rows: vec![std::ptr::null_mut(); max].into(),
            tails: vec![std::ptr::null(); max].into(),
        }
    }

    /// The transaction changes this row: no other transaction has it at the same time.
    #[inline]
    pub fn write<T: Send + Sync>(&mut self, table: &'a Table<T>, row: usize) {
        self.name(table, row, true);
    }

    /// The transaction only reads this row: others may read it at the same time.
    #[inline]
    pub fn read<T: Send + Sync>(&mut self, table: &'a Table<T>, row: usize) {
        self.name(table, row, false);
    }

    #[inline]
    fn name<T: Send + Sync>(&mut self, table: &'a Table<T>, row: usize, write: bool) {
        if !table.is_sealed_by(self.owner) && !self.seal(table) {
            return;
        }
        let Some((place, tail)) = table.place(row) else {
            let rows = table.len();
            self.fault.get_or_insert(Fault::NoRow { row, rows });
            return;
        };
        if self.n == self.max {
            let max = self.max;
            self.fault.get_or_insert(Fault::TooMany { max });
            return;
        }
        self.rows[self.n] = place.cast();
        self.tails[self.n] = tail;
        self.writes |= u64::from(write) << self.n;
        self.n += 1;
    }

    #[cold]
    fn seal<T: Send + Sync>(&mut self, table: &'a Table<T>) -> bool {
        if !table.take(self.owner) {
            self.fault.get_or_insert(Fault::InUse);
            return false;
        }
        #[expect(unsafe_code, reason = "the table was sealed just now")]
        // SAFETY: we own the table, and this is the first time a transaction names a row of it.
        unsafe {
            table.forget();
        }
        self.sealed.push(table);
        true
    }

    /// Begins with the next transaction.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.n = 0;
        self.writes = 0;
    }

    pub(crate) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    pub(crate) fn has_fault(&self) -> bool {
        self.fault.is_some()
    }

    /// What was named: rows, their tails, and a bit for each that is written.
    #[inline]
    pub(crate) fn named(&self) -> (&[*mut u8], &[*const Tail], u64) {
        (&self.rows[..self.n], &self.tails[..self.n], self.writes)
    }
}

impl Drop for Access<'_> {
    fn drop(&mut self) {
        for table in &self.sealed {
            table.unseal();
        }
    }
}

impl fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("named", &self.n)
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}

/// The rows that a running transaction holds, by the order in which it named them.
///
/// Where a row was named more than once, any of its places leads to it; the borrow checker sees to it that only one is
/// used at a time.
#[derive(Debug)]
pub struct Acquired<'r> {
    rows: Rows<'r>,
    n: usize,
    writes: u64,
}

#[expect(
    unsafe_code,
    reason = "turns the pointers of held rows into references"
)]
impl<'r> Acquired<'r> {
    /// # Safety
    /// The caller holds the rows, in these modes, for `'r`.
    pub(crate) unsafe fn new(rows: Rows<'r>, n: usize, writes: u64) -> Self {
        Self { rows, n, writes }
    }

    /// How many rows were named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether no row was named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Whether the `i`-th row was named to be written.
    #[must_use]
    pub fn is_write(&self, i: usize) -> bool {
        i < self.n && self.writes >> i & 1 == 1
    }

    /// The `i`-th row, which was named to be written.
    ///
    /// # Panics
    /// If fewer rows were named, or this one is another table's, or was named to be read.
    #[inline]
    pub fn write<T>(&mut self, table: &Table<T>, i: usize) -> &mut T {
        let row = self.checked(table, i);
        assert!(
            self.is_write(i),
            "row {i} was named to be read, not written"
        );
        // SAFETY: the row is held for writing, and the borrow of `self` allows no second reference.
        unsafe { &mut *row }
    }

    /// The `i`-th row, whichever way it was named.
    ///
    /// # Panics
    /// If fewer rows were named, or this one is another table's.
    #[inline]
    #[must_use]
    pub fn read<T>(&self, table: &Table<T>, i: usize) -> &T {
        let row = self.checked(table, i);
        // SAFETY: the row is held, and the borrow of `self` allows no `&mut` to it.
        unsafe { &*row }
    }

    /// Two rows that were named to be written, at the same time.
    ///
    /// # Panics
    /// As [`Acquired::write`], and if both are the same row.
    #[inline]
    pub fn write_pair<T, U>(
        &mut self,
        (table, i): (&Table<T>, usize),
        (other, j): (&Table<U>, usize),
    ) -> (&mut T, &mut U) {
        let (row, next) = (self.checked(table, i), self.checked(other, j));
        assert!(
            self.is_write(i) && self.is_write(j),
            "rows {i} and {j} were not both named to be written"
        );
        assert!(!self.is_same(i, j), "rows {i} and {j} are the same row");
        // SAFETY: the row is held for writing, and the other is another row.
        let row = unsafe { &mut *row };
        // SAFETY: as above.
        (row, unsafe { &mut *next })
    }

    /// Whether two places lead to the same row.
    ///
    /// # Panics
    /// If fewer rows were named.
    #[must_use]
    pub fn is_same(&self, i: usize, j: usize) -> bool {
        self.pointer(i) == self.pointer(j)
    }

    #[inline]
    fn pointer(&self, i: usize) -> *mut u8 {
        assert!(i < self.n, "row {i} of {} that were named", self.n);
        self.rows.get(i)
    }

    #[inline]
    fn checked<T>(&self, table: &Table<T>, i: usize) -> *mut T {
        let row = self.pointer(i);
        assert!(table.has(row), "row {i} is of another table");
        row.cast()
    }
}
