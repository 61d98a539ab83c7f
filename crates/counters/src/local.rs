//! Finding the calling thread's block by instance: a table per thread, indexed by the instance's number.
//!
//! The table is reached through a thread-local without a destructor, which costs an instruction or two; a second one with
//! a destructor owns it and hands the blocks on when the thread ends. Handles count themselves, as `Rc` does, so a block is
//! handed on only when the last one is gone, also if one sits in another thread-local that is destroyed later.

#![expect(
    unsafe_code,
    reason = "the table is read without a borrow flag; handles point into slabs"
)]

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::thread_local;
use std::vec::Vec;

use crate::per_thread::PerThread;
use crate::registry::Lease;
use crate::schema::Counters;
use crate::sync::Lock;

/// Which row of the threads' tables is an instance's. Rows are used again, serial numbers are not.
#[derive(Debug)]
pub(crate) struct InstanceId {
    row: usize,
    serial: u64,
}

/// Rows that instances gave back, and how many there are. Identity only: nothing is counted or found through it.
static ROWS: Lock<(Vec<usize>, usize)> = Lock::new((Vec::new(), 0));

impl InstanceId {
    pub(crate) fn new() -> Self {
        static SERIAL: AtomicU64 = AtomicU64::new(1);
        let (free, n) = &mut *ROWS.lock();
        let row = free.pop().unwrap_or_else(|| {
            *n += 1;
            *n - 1
        });
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        Self { row, serial }
    }
}

impl Drop for InstanceId {
    fn drop(&mut self) {
        ROWS.lock().0.push(self.row);
    }
}

/// A thread's block of one instance.
#[derive(Debug)]
struct Row {
    /// Of the instance; 0 if there is none.
    serial: u64,
    block: NonNull<()>,
    lease: Option<Rc<Lease>>,
}

/// Where the table is now.
#[derive(Clone, Copy)]
struct Table {
    rows: *const Row,
    len: usize,
}

const NO_TABLE: Table = Table {
    rows: ptr::null(),
    len: 0,
};

struct Owner {
    rows: RefCell<Vec<Row>>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        TABLE.set(NO_TABLE);
        // Handing blocks on runs no code of the user's, so nobody looks for the table meanwhile.
    }
}

thread_local! {
    static TABLE: Cell<Table> = const { Cell::new(NO_TABLE) };
    static OWNER: Owner = const { Owner { rows: RefCell::new(Vec::new()) } };
}

/// The calling thread's row of an instance.
#[inline(always)]
fn row<C: Counters>(instance: &PerThread<C>) -> Option<&'static Row> {
    let table = TABLE.get();
    if instance.id.row >= table.len {
        return None;
    }
    // SAFETY: the row is within the table of `OWNER`.
    let row = unsafe { table.rows.add(instance.id.row) };
    // SAFETY: `TABLE` is what `OWNER`'s table was when it was last changed, on this thread; both change in `register` and
    // at the thread's end only, and no caller keeps the reference across those.
    let row = unsafe { &*row };
    (row.serial == instance.id.serial).then_some(row)
}

/// The lease of the calling thread, if it has one already.
pub(crate) fn find<C: Counters>(instance: &PerThread<C>) -> Option<Rc<Lease>> {
    row(instance).and_then(|row| row.lease.clone())
}

impl<C: Counters> PerThread<C> {
    /// The calling thread's block. The first call on a thread takes a block; later ones find it.
    ///
    /// The handle can be kept for as long as the thread lives, in a struct, or a thread-local. Keep it where the loop is
    /// hot; where it is not, finding it each time is cheap, and [`with`](Self::with) is a little cheaper still.
    #[inline]
    pub fn local(&self) -> Local<C> {
        if let Some(row) = row(self)
            && let Some(lease) = &row.lease
        {
            return Local {
                block: row.block.cast(),
                _lease: Rc::clone(lease),
            };
        }
        register(self)
    }

    /// Counts in the calling thread's block, without a handle.
    ///
    /// ```
    /// use hitm_counters::{Counter, PerThread};
    ///
    /// static STATS: std::sync::LazyLock<PerThread<Counter>> = std::sync::LazyLock::new(PerThread::new);
    /// STATS.with(|own| own.inc());
    /// assert_eq!(STATS.snapshot().values(), 1);
    /// ```
    #[inline]
    pub fn with<R>(&self, count: impl FnOnce(&C) -> R) -> R {
        if let Some(row) = row(self) {
            let block: NonNull<C> = row.block.cast();
            // SAFETY: the row's lease holds the block's slab. It goes when the thread ends, which is not now, or when
            // its instance is gone, which is borrowed. The slab was made for this instance's type.
            return count(unsafe { block.as_ref() });
        }
        count(&register(self))
    }
}

/// Takes a block for the calling thread.
#[cold]
#[inline(never)]
fn register<C: Counters>(instance: &PerThread<C>) -> Local<C> {
    let name = own_name();
    let lease = Rc::new(instance.registry().claim(name));
    let block = lease.slab.block::<C>(lease.slot);
    // At the very end of a thread the table is gone; then the block is handed on with the handle.
    let _ = OWNER.try_with(|owner| {
        let mut rows = owner.rows.borrow_mut();
        // Instances that are gone: their memory is kept by nothing else.
        for row in rows.iter_mut() {
            let gone = |lease: &Rc<Lease>| lease.registry.strong_count() == 0;
            if row.lease.as_ref().is_some_and(gone) {
                row.serial = 0;
                row.lease = None;
            }
        }
        while rows.len() <= instance.id.row {
            rows.push(Row {
                serial: 0,
                block: NonNull::dangling(),
                lease: None,
            });
        }
        if let Some(row) = rows.get_mut(instance.id.row) {
            *row = Row {
                serial: instance.id.serial,
                block: block.cast(),
                lease: Some(Rc::clone(&lease)),
            };
        }
        TABLE.set(Table {
            rows: rows.as_ptr(),
            len: rows.len(),
        });
    });
    Local {
        block,
        _lease: lease,
    }
}

/// The calling thread's name, or nothing.
fn own_name() -> Arc<str> {
    let thread = thread::current();
    Arc::from(thread.name().unwrap_or_default())
}

/// The calling thread's block of an instance; see [`PerThread::local`].
pub struct Local<C> {
    block: NonNull<C>,
    /// Also what keeps the handle on its thread.
    _lease: Rc<Lease>,
}

impl<C> Clone for Local<C> {
    fn clone(&self) -> Self {
        Self {
            block: self.block,
            _lease: Rc::clone(&self._lease),
        }
    }
}

impl<C> Deref for Local<C> {
    type Target = C;

    #[inline(always)]
    fn deref(&self) -> &C {
        // SAFETY: the lease holds the block's slab, which was made for this type; other threads have references to its
        // atomics only.
        unsafe { self.block.as_ref() }
    }
}

impl<C> fmt::Debug for Local<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Local").field(&self._lease.slot).finish()
    }
}
