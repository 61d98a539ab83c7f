//! `fork`: the child goes on counting on a copy, and drops its parent's threads from the list.
//!
//! The only test of its binary, so that no other thread holds a lock at the fork.

#![cfg(not(any(loom, miri)))]
#![expect(unsafe_code, reason = "a fork is unsafe in a program with threads")]

use std::sync::mpsc;
use std::thread;

use hitm_counters::{Counter, PerThread};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};

/// What the child saw, as far as an exit code can tell.
fn child(stats: &PerThread<Counter>) -> i32 {
    let before = stats.threads().iter().len();
    stats.after_fork(None);
    stats.local().inc();
    let threads = stats.threads();
    let own: u64 = threads.iter().map(|thread| thread.values()).sum();
    match (before, threads.iter().len(), own, threads.total().values()) {
        (2, 1, 2, 3) => 0,
        _ => 1,
    }
}

#[test]
fn a_forked_child_counts_on_its_own() {
    let stats = &PerThread::<Counter>::new();
    stats.local().inc();
    let (ready, is_ready) = mpsc::channel();
    let (go, end) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            stats.local().inc();
            ready.send(()).unwrap();
            // Lives until after the fork, and holds nothing.
            let _ = end.recv();
        });
        is_ready.recv().unwrap();
        // SAFETY: of the other threads, the harness's waits and ours does; the C library's allocator takes care of
        // itself. The child leaves by `_exit`.
        match unsafe { fork() }.unwrap() {
            ForkResult::Child => {
                let code = child(stats);
                // SAFETY: ends the process; nothing is to be dropped.
                unsafe { nix::libc::_exit(code) }
            }
            ForkResult::Parent { child } => {
                let status = waitpid(child, None).unwrap();
                drop(go);
                // Leaving the scope does not wait for thread-locals, joining does.
                other.join().unwrap();
                assert_eq!(status, WaitStatus::Exited(child, 0));
                assert_eq!(
                    stats.snapshot().values(),
                    2,
                    "the child's count is the child's"
                );
            }
        }
    });
    assert_eq!(stats.threads().iter().len(), 1);
}
