//! After it has warmed up, a request allocates nothing.
#![cfg(not(any(loom, shuttle)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use doradd::{Runtime, read};

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

/// One test only: the counter is the process's.
#[test]
fn requests_allocate_nothing() {
    let runtime = Runtime::builder().workers(2).build().unwrap();
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
}
