//! After it has warmed up, a request allocates nothing.
#![cfg(not(any(loom, shuttle)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use doradd::{Access, Acquired, App, Ctx, Dispatch, Runtime, Table, read};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Ten rows of each request, some of them shared with the requests before.
struct Rows(Table<u64>);

impl App for Rows {
    type Txn = usize;

    fn access<'a>(&'a self, txn: &usize, access: &mut Access<'a>) {
        for i in 0..10 {
            if i % 3 == 0 {
                access.read(&self.0, (txn + i) % 1000);
            } else {
                access.write(&self.0, (txn * 7 + i) % 1000);
            }
        }
    }

    fn execute(&self, txn: &usize, mut rows: Acquired<'_>, _: &Ctx) {
        *rows.write(&self.0, 1) += *txn as u64;
    }
}

/// One test only: the counter is the process's.
#[test]
fn requests_allocate_nothing() {
    let mut runtime = Runtime::builder()
        .workers(2)
        .dispatch(Dispatch::Fused)
        .build()
        .unwrap();
    let (a, b) = (runtime.cown(0u64), runtime.cown(0u64));
    let submit = |n: u64| {
        for i in 0..n {
            runtime.when((&a, read(&b)), move |(a, b)| *a += *b + i);
            runtime.when(&b, move |b| *b ^= i);
        }
        runtime.drain();
    };
    submit(10_000);
    let before = ALLOCATIONS.load(Relaxed);
    submit(50_000);
    assert_eq!(ALLOCATIONS.load(Relaxed) - before, 0, "in 100,000 requests");

    // A replay has its window and threads, however long the log is.
    let app = Rows(Table::new(1000, |_| 0));
    let mut replay = |n: usize| {
        let before = ALLOCATIONS.load(Relaxed);
        assert_eq!(runtime.replay(0..n, &app).unwrap().executed, n as u64);
        ALLOCATIONS.load(Relaxed) - before
    };
    let short = replay(10_000);
    let long = replay(110_000);
    assert!(
        long < short + 100,
        "{long} allocations, and {short} with 100,000 requests less"
    );
}
