//! The transactions in flight: a ring of records, line-aligned, used again in the order of the log.
//!
//! Transaction `s` lives in record `s % n`. A record is free for `s + n` once `s` has ended, so at most `n` transactions
//! are in flight, nothing is allocated for one, and a transaction's place is known from its number alone. What only the
//! dispatcher looks at (tails, chains of readers) and what only conflicts need (predecessors) are arrays of their own.

use std::mem::MaybeUninit;

use crate::line::{prefetch, prefetch_to_write};
use crate::replay::access::Access;
use crate::replay::table::Tail;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering, UnsafeCell};

/// Rows whose pointers are on a record's first line.
const INLINE_ROWS: usize = 3;
/// Pointers on a line.
const PER_LINE: usize = 8;

/// A list of those who wait for a transaction that nobody is in.
pub(crate) const NOBODY: u32 = 0;
/// The list of a transaction that has released its rows.
pub(crate) const RELEASED: u32 = u32::MAX;

/// Words for predecessors on a line; so few under the model checkers that workers have to follow chains of readers.
const PREDECESSORS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 16 };

/// A transaction's record: all that a worker needs to run it, if it has three rows and a small request on one line.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Record<T> {
    /// Which transaction this is and who waits for it: [`NOBODY`], the last of a list, or [`RELEASED`] once it has ended.
    pub(crate) state: AtomicU64,
    /// The one before this in the list it is in.
    pub(crate) next: AtomicU32,
    /// What it may still have to wait for, see [`Left`].
    pub(crate) left: AtomicU32,
    task: Task<T>,
}

/// The part of a record that is written once per transaction.
///
/// What a worker may look at before it has the record, to fetch rows ahead, is atomic: it may see another transaction's.
#[repr(C)]
#[derive(Debug)]
struct Task<T> {
    /// The sequence number above, the number of rows in the lowest 8 bits.
    sequence_and_n: AtomicU64,
    writes: AtomicU64,
    rows: [AtomicPtr<u8>; INLINE_ROWS],
    txn: UnsafeCell<MaybeUninit<T>>,
}

const _: () = assert!(size_of::<Record<usize>>() == 64 || cfg!(any(loom, shuttle)));

/// How many of a transaction's predecessors nobody has looked at: single ones from the front of their lines, chains of
/// readers from the back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    pub(crate) singles: usize,
    pub(crate) chains: usize,
}

impl Left {
    pub(crate) fn of(word: u32) -> Self {
        Self {
            singles: (word & 0xFFFF) as usize,
            chains: (word >> 16) as usize,
        }
    }

    pub(crate) fn word(self) -> u32 {
        (self.chains as u32) << 16 | self.singles as u32
    }
}

/// The word of a record's state: the lower half of the transaction's number, and its list.
#[inline(always)]
pub(crate) fn state(sequence: u64, list: u32) -> u64 {
    sequence << 32 | u64::from(list)
}

/// Predecessors by the lower halves of their numbers; a chain is two words, the other one is the place of the row.
#[repr(C, align(64))]
#[derive(Debug)]
struct PredecessorLine([AtomicU32; PREDECESSORS]);

/// More pointers to rows.
#[repr(C, align(64))]
#[derive(Debug)]
struct RowLine([AtomicPtr<u8>; PER_LINE]);

/// What the dispatcher's stages know of a named row.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) tail: UnsafeCell<*const Tail>,
    /// For a reader: the row's tail before it. The only field that a worker may look at.
    pub(crate) before: AtomicU64,
    /// For a reader: the writer it reads from.
    pub(crate) writer: AtomicU64,
}

/// All transactions in flight.
#[derive(Debug)]
pub(crate) struct Window<T> {
    records: Box<[Record<T>]>,
    lines: Box<[RowLine]>,
    predecessors: Box<[PredecessorLine]>,
    planned: Box<[Planned]>,
    max: usize,
    lines_each: usize,
    predecessor_lines_each: usize,
    mask: u64,
    bound: u64,
}

#[expect(
    unsafe_code,
    reason = "records are handed from stage to worker to stage"
)]
mod shared {
    use super::Window;

    // SAFETY: a record's cells belong to the stage that has its number, then to the worker that runs it, then again to the
    // first stage; each hand-over is a release and an acquire (cursors, rings, lists, the state's end).
    unsafe impl<T: Send> Sync for Window<T> {}
    // SAFETY: as above; the pointers are to rows of tables that outlive the window.
    unsafe impl<T: Send> Send for Window<T> {}
}

impl<T> Window<T> {
    /// A window for so many transactions of so many rows.
    pub(crate) fn new(bound: usize, max: usize) -> Self {
        let n = bound.next_power_of_two();
        let lines_each = max.saturating_sub(INLINE_ROWS).div_ceil(PER_LINE);
        let predecessor_lines_each = (2 * max).div_ceil(PREDECESSORS);
        let record = |_| Record {
            state: AtomicU64::new(state(0, RELEASED)),
            next: AtomicU32::new(0),
            left: AtomicU32::new(0),
            task: Task {
                sequence_and_n: AtomicU64::new(0),
                writes: AtomicU64::new(0),
                rows: std::array::from_fn(|_| AtomicPtr::default()),
                txn: UnsafeCell::new(MaybeUninit::uninit()),
            },
        };
        let row_line = |_| RowLine(std::array::from_fn(|_| AtomicPtr::default()));
        let predecessor_line = |_| PredecessorLine(std::array::from_fn(|_| AtomicU32::new(0)));
        let planned = |_| Planned {
            tail: UnsafeCell::new(std::ptr::null()),
            before: AtomicU64::new(0),
            writer: AtomicU64::new(0),
        };
        Self {
            records: (0..n).map(record).collect(),
            lines: (0..n * lines_each).map(row_line).collect(),
            predecessors: (0..n * predecessor_lines_each)
                .map(predecessor_line)
                .collect(),
            planned: (0..n * max).map(planned).collect(),
            max,
            lines_each,
            predecessor_lines_each,
            mask: n as u64 - 1,
            bound: bound as u64,
        }
    }

    /// The record of a transaction.
    #[inline(always)]
    pub(crate) fn id(&self, sequence: u64) -> u32 {
        (sequence & self.mask) as u32
    }

    #[inline(always)]
    pub(crate) fn record(&self, id: u32) -> &Record<T> {
        &self.records[id as usize]
    }

    /// Records in all; a transaction this far behind another has surely ended when the other has a record.
    #[inline(always)]
    pub(crate) fn records(&self) -> u64 {
        self.mask + 1
    }

    /// Transactions at most that are in flight.
    pub(crate) fn bound(&self) -> u64 {
        self.bound
    }

    /// Words for predecessors that a record has: two for each row.
    #[inline(always)]
    pub(crate) fn predecessor_words(&self) -> usize {
        self.predecessor_lines_each * PREDECESSORS
    }

    #[inline(always)]
    pub(crate) fn predecessor(&self, id: u32, word: usize) -> &AtomicU32 {
        let first = id as usize * self.predecessor_lines_each;
        &self.predecessors[first + word / PREDECESSORS].0[word % PREDECESSORS]
    }

    #[inline(always)]
    pub(crate) fn planned(&self, id: u32, slot: usize) -> &Planned {
        &self.planned[id as usize * self.max + slot]
    }

    /// Whether a transaction of this number may be put in flight: the one `bound` before it has ended.
    #[inline]
    pub(crate) fn has_room(&self, sequence: u64) -> bool {
        let Some(before) = sequence.checked_sub(self.bound) else {
            return true;
        };
        // Acquire: the worker is done with the record, and what it did to rows is there for who comes next.
        self.record(self.id(before)).state.load(Ordering::Acquire) == state(before, RELEASED)
    }

    /// Fetches the lines of a record that will be filled soon.
    #[inline]
    pub(crate) fn prefetch_to_fill(&self, id: u32) {
        prefetch_to_write(self.record(id));
        if self.lines_each > 0 {
            prefetch_to_write(&self.lines[id as usize * self.lines_each]);
        }
    }

    /// Fetches the lines of a record that will be run soon.
    #[inline]
    pub(crate) fn prefetch_to_run(&self, id: u32) {
        prefetch_to_write(self.record(id));
        if self.lines_each > 0 {
            prefetch(&self.lines[id as usize * self.lines_each]);
        }
    }
}

#[expect(
    unsafe_code,
    reason = "cells whose owner is a matter of protocol, see `shared`"
)]
impl<T> Window<T> {
    /// Puts a transaction into its free record.
    ///
    /// # Safety
    /// [`Window::has_room`] said so for this number, and the caller is the first stage.
    #[inline]
    pub(crate) unsafe fn fill(&self, sequence: u64, txn: T) {
        let record = self.record(self.id(sequence));
        // Release: who finds another transaction here than it looked for knows that the other has ended, and has what
        // it did by the acquire of `has_room`.
        record
            .state
            .store(state(sequence, NOBODY), Ordering::Release);
        let task = &record.task;
        task.sequence_and_n.store(sequence << 8, Ordering::Relaxed);
        task.txn.with_mut(|place| {
            // SAFETY: the record is free, so it is the first stage's.
            unsafe { *place = MaybeUninit::new(txn) }
        });
    }

    /// The request of a transaction.
    ///
    /// # Safety
    /// The caller's stage, or worker, has the transaction, which is filled and not dropped.
    #[inline]
    pub(crate) unsafe fn txn(&self, id: u32) -> &T {
        self.record(id).task.txn.with(|txn| {
            // SAFETY: nobody writes the record while the caller has it.
            let txn = unsafe { &*txn };
            // SAFETY: it is filled.
            unsafe { txn.assume_init_ref() }
        })
    }

    /// Writes down the rows that a transaction named.
    ///
    /// # Safety
    /// The caller's stage has the transaction.
    #[inline]
    pub(crate) unsafe fn set_rows(&self, id: u32, access: &Access<'_>) {
        let (rows, tails, writes) = access.named();
        let task = &self.record(id).task;
        let sequence = task.sequence_and_n.load(Ordering::Relaxed);
        let n = rows.len() as u64;
        task.sequence_and_n.store(sequence | n, Ordering::Relaxed);
        task.writes.store(writes, Ordering::Relaxed);
        for (i, row) in rows.iter().enumerate() {
            self.row(id, i).store(*row, Ordering::Relaxed);
        }
        for (slot, tail) in tails.iter().enumerate() {
            self.planned(id, slot).tail.with_mut(|place| {
                // SAFETY: the stage has the transaction.
                unsafe { *place = *tail }
            });
        }
    }

    /// Fetches the tails of the rows of a transaction.
    ///
    /// # Safety
    /// The caller's stage has the transaction, whose rows are written down.
    #[inline]
    pub(crate) unsafe fn prefetch_tails(&self, id: u32) {
        let (_, n, _) = self.task(id);
        for slot in 0..n {
            self.planned(id, slot).tail.with(|tail| {
                // SAFETY: an earlier stage wrote it, and nobody writes it while this one has it.
                prefetch(unsafe { *tail });
            });
        }
    }

    /// Ends a transaction's request.
    ///
    /// # Safety
    /// The caller has the transaction, which is filled; called once.
    #[inline]
    pub(crate) unsafe fn drop_txn(&self, id: u32) {
        self.record(id).task.txn.with_mut(|txn| {
            // SAFETY: the caller has the record.
            let txn = unsafe { &mut *txn };
            // SAFETY: it is filled, and not dropped yet.
            unsafe { txn.assume_init_drop() }
        });
    }
}

impl<T> Window<T> {
    /// The sequence number, the number of rows, and a bit for each row that is written.
    ///
    /// Another transaction's, if the caller has not got the record.
    #[inline]
    pub(crate) fn task(&self, id: u32) -> (u64, usize, u64) {
        let task = &self.record(id).task;
        let word = task.sequence_and_n.load(Ordering::Relaxed);
        let writes = task.writes.load(Ordering::Relaxed);
        (word >> 8, (word & 0xFF) as usize, writes)
    }

    #[inline(always)]
    fn row(&self, id: u32, i: usize) -> &AtomicPtr<u8> {
        self.rows(id).place(i)
    }

    /// The rows of a transaction.
    #[inline(always)]
    pub(crate) fn rows(&self, id: u32) -> Rows<'_> {
        let first = id as usize * self.lines_each;
        Rows {
            first: &self.record(id).task.rows,
            lines: &self.lines[first..first + self.lines_each],
        }
    }
}

/// Pointers to a transaction's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'r> {
    first: &'r [AtomicPtr<u8>; INLINE_ROWS],
    lines: &'r [RowLine],
}

impl<'r> Rows<'r> {
    #[inline(always)]
    fn place(self, i: usize) -> &'r AtomicPtr<u8> {
        match self.first.get(i) {
            Some(place) => place,
            None => {
                let i = i - INLINE_ROWS;
                &self.lines[i / PER_LINE].0[i % PER_LINE]
            }
        }
    }

    /// The pointer of the `i`-th row; another transaction's, or null, if the caller has not got the record.
    #[inline(always)]
    pub(crate) fn get(self, i: usize) -> *mut u8 {
        self.place(i).load(Ordering::Relaxed)
    }
}
