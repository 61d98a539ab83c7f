//! Every interleaving of a few threads, through loom: `cargo xtask loom`.

#![cfg(loom)]

use std::sync::Arc;

use hitm_counters::{Counter, Counters, Latest, Max, PerThread};
use loom::thread;

/// Without the preemption bound some of these take hours; three find what has been put in wrong so far.
fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(test);
}

#[test]
fn what_is_counted_is_in_exactly_one_taking() {
    check(|| {
        let stats = Arc::new(PerThread::<Counter>::with_capacity(1));
        let own = stats.claim("");
        let counter = thread::spawn(move || {
            own.inc();
            own.inc();
        });
        let first = stats.take().values();
        let second = stats.take().values();
        counter.join().unwrap();
        assert_eq!(first + second + stats.take().values(), 2);
    });
}

#[test]
fn a_block_that_is_handed_on_loses_nothing_and_is_never_counted_twice() {
    check(|| {
        let stats = Arc::new(PerThread::<Counter>::with_capacity(1));
        let theirs = Arc::clone(&stats);
        let counter = thread::spawn(move || {
            theirs.claim("first").inc();
            theirs.claim("second").inc();
        });
        let before = stats.snapshot().values();
        let between = stats.snapshot().values();
        assert!(before <= between && between <= 2);
        counter.join().unwrap();
        assert_eq!(stats.snapshot().values(), 2);
        assert_eq!(stats.threads().ended().values(), 2);
    });
}

#[test]
fn two_threads_that_begin_at_once_do_not_get_one_block() {
    check(|| {
        let stats = Arc::new(PerThread::<Counter>::with_capacity(1));
        let theirs = Arc::clone(&stats);
        let counter = thread::spawn(move || theirs.claim("a").inc());
        stats.claim("b").inc();
        counter.join().unwrap();
        assert_eq!(stats.snapshot().values(), 2);
    });
}

#[test]
fn the_parts_add_up_to_the_total_while_a_thread_ends() {
    check(|| {
        let stats = Arc::new(PerThread::<Counter>::with_capacity(1));
        let own = stats.claim("");
        let counter = thread::spawn(move || {
            own.inc();
            drop(own);
        });
        let threads = stats.threads();
        let live: u64 = threads.iter().map(|thread| thread.values()).sum();
        assert_eq!(live + threads.ended().values(), threads.total().values());
        counter.join().unwrap();
    });
}

#[test]
fn a_largest_value_is_in_a_taking_that_is_not_before_it() {
    check(|| {
        let stats = Arc::new(PerThread::<Max>::with_capacity(1));
        let own = stats.claim("");
        let seer = thread::spawn(move || {
            own.see(5);
            own.see(3);
            own.see(9);
        });
        let first = stats.take().values();
        let second = stats.take().values();
        seer.join().unwrap();
        let third = stats.take().values();
        let takings = [first, second, third];
        let nines = takings.iter().filter(|taken| **taken == Some(9)).count();
        assert_eq!(nines, 1, "{takings:?}");
        assert!(
            takings
                .iter()
                .flatten()
                .all(|seen| [3, 5, 9].contains(seen))
        );
        assert!(takings.contains(&Some(9)));
        // The five is told, or something larger in the same taking.
        assert!(takings.iter().flatten().any(|seen| *seen >= 5));
        assert_eq!(stats.take().values(), None);
    });
}

#[derive(Counters)]
struct Version {
    version: Latest,
}

#[test]
fn of_two_sets_in_order_the_later_one_is_read() {
    check(|| {
        let stats = Arc::new(PerThread::<Version>::with_capacity(2));
        let (first, second) = (stats.claim("a"), stats.claim("b"));
        first.version.set(1);
        let setter = thread::spawn(move || {
            second.version.set(2);
            drop(second);
        });
        let during = stats.snapshot().values().version;
        assert!(during == Some(1) || during == Some(2));
        setter.join().unwrap();
        assert_eq!(stats.snapshot().values().version, Some(2));
        first.version.set(3);
        assert_eq!(stats.snapshot().values().version, Some(3));
    });
}
