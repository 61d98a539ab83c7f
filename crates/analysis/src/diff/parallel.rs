//! The same work for many things, by several threads, with the results in order.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many are done in one go.
const CHUNK: usize = 64;

/// What `work` gives for each number below `n`.
pub(super) fn map<T: Send>(
    n: usize,
    jobs: NonZeroUsize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let run = || {
        let mut done = Vec::new();
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= n {
                return done;
            }
            let chunk: Vec<T> = (start..n.min(start + CHUNK)).map(&work).collect();
            done.push((start, chunk));
        }
    };
    let mut done = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..jobs.get()).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for helper in helpers {
            match helper.join() {
                Ok(more) => done.extend(more),
                // A fault of ours, as it would be without the thread.
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|&(start, _)| start);
    done.into_iter().flat_map(|(_, chunk)| chunk).collect()
}
