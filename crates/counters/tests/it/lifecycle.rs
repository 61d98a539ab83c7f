//! Threads that come and go, end in panics, fork; instances that go before their threads.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, mpsc};
use std::thread;

use hitm_counters::{Counter, Counters, Gauge, Local, Max, PerThread};

#[derive(Counters)]
struct Stats {
    events: Counter,
    level: Gauge,
    longest: Max,
}

fn names(stats: &PerThread<Stats>) -> Vec<String> {
    let threads = stats.threads();
    threads
        .iter()
        .map(|thread| thread.name().to_owned())
        .collect()
}

#[test]
fn churning_threads_lose_nothing_while_readers_take_and_look() {
    // Miri takes its time.
    const ROUNDS: u64 = if cfg!(miri) { 3 } else { 60 };
    const THREADS: u64 = 8;
    const EACH: u64 = if cfg!(miri) { 20 } else { 500 };
    let stats = PerThread::<Stats>::with_capacity(1);
    let done = AtomicBool::new(false);
    let mut taken = 0;
    thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut taken = 0;
            while !done.load(Ordering::Acquire) {
                taken += stats.take().values().events;
                thread::yield_now();
            }
            taken
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let threads = stats.threads();
                let live: u64 = threads.iter().map(|thread| thread.values().events).sum();
                let sum = live.wrapping_add(threads.ended().values().events);
                assert_eq!(sum, threads.total().values().events);
                thread::yield_now();
            }
        });
        for _ in 0..ROUNDS {
            thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let own = stats.local();
                        (0..EACH).for_each(|_| own.events.inc());
                    });
                }
            });
        }
        done.store(true, Ordering::Release);
        taken = taker.join().unwrap();
    });
    let left = stats.snapshot().values().events;
    assert_eq!(taken + left, ROUNDS * THREADS * EACH);
    // Slots were used again: 480 threads, at most 8 of them and a few at their ends at once.
    assert!(stats.bytes() < 64 * 512, "{} bytes", stats.bytes());
}

#[test]
fn counters_never_go_back_while_threads_end() {
    const THREADS: u64 = if cfg!(miri) { 5 } else { 200 };
    let stats = PerThread::<Stats>::new();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Acquire) {
                let now = stats.get(|stats| &stats.events);
                assert!(now >= last, "{now} after {last}");
                last = now;
            }
        });
        for _ in 0..THREADS {
            thread::scope(|scope| {
                scope.spawn(|| stats.with(|own| (0..50).for_each(|_| own.events.inc())));
            });
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(stats.get(|stats| &stats.events), THREADS * 50);
}

#[test]
fn a_thread_that_ends_leaves_its_counts_but_not_its_level() {
    let stats = PerThread::<Stats>::new();
    let counting = |name: &'static str, level, longest| {
        let stats = &stats;
        thread::scope(|scope| {
            let builder = thread::Builder::new().name(name.into());
            let thread = builder.spawn_scoped(scope, move || {
                let own = stats.local();
                own.events.inc();
                own.level.set(level);
                own.longest.see(longest);
                assert_eq!(names(stats), [name]);
                assert_eq!(stats.threads().iter().next().unwrap().values().events, 1);
            });
            thread.unwrap().join().unwrap();
        });
    };
    counting("first", 7, 100);
    counting("second", 8, 50);
    let threads = stats.threads();
    assert_eq!(threads.iter().len(), 0);
    let ended = threads.ended().values();
    assert_eq!(
        (ended.events, ended.level, ended.longest),
        (2, 0, Some(100))
    );
    let total = stats.take().values();
    assert_eq!(
        (total.events, total.level, total.longest),
        (2, 0, Some(100))
    );
    let total = stats.snapshot().values();
    assert_eq!((total.events, total.longest), (0, None));
}

#[test]
fn a_thread_that_panics_leaves_its_counts() {
    let stats = Arc::new(PerThread::<Stats>::new());
    let theirs = Arc::clone(&stats);
    let thread = thread::Builder::new()
        .name("unlucky".into())
        .spawn(move || {
            let own = theirs.local();
            own.events.add(5);
            // Unwinds without the message that a panic prints.
            std::panic::resume_unwind(Box::new(()));
        });
    assert!(thread.unwrap().join().is_err());
    assert_eq!(stats.snapshot().values().events, 5);
    assert_eq!(names(&stats), [""; 0]);
}

#[test]
fn an_instance_may_go_before_its_threads_and_its_row_is_used_again() {
    let (to_thread, instances) = mpsc::channel::<Arc<PerThread<Stats>>>();
    let (to_us, done) = mpsc::channel();
    let thread = thread::spawn(move || {
        let mut kept: Option<Local<Stats>> = None;
        for stats in instances {
            stats.local().events.add(2);
            let own = stats.local();
            own.events.inc();
            drop(stats);
            to_us.send(()).unwrap();
            if let Some(kept) = &kept {
                kept.events.inc(); // for nobody
            }
            kept = Some(own);
        }
    });
    for _ in 0..100 {
        let stats = Arc::new(PerThread::new());
        to_thread.send(Arc::clone(&stats)).unwrap();
        done.recv().unwrap();
        assert_eq!(stats.snapshot().values().events, 3);
    }
    drop(to_thread);
    thread.join().unwrap();
}

#[test]
fn instances_do_not_mix() {
    let all: Vec<PerThread<Counter>> = (0..50).map(|_| PerThread::new()).collect();
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for (i, stats) in all.iter().enumerate() {
                    stats.local().add(i as u64);
                }
            });
        }
    });
    for (i, stats) in all.iter().enumerate() {
        assert_eq!(stats.snapshot().values(), 3 * i as u64);
    }
}

static LATE: LazyLock<PerThread<Counter>> = LazyLock::new(PerThread::new);

/// Counts when its thread-local is destroyed.
struct AtTheEnd(RefCell<Option<Local<Counter>>>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        if let Some(own) = self.0.borrow().as_ref() {
            own.add(10);
        }
        LATE.with(|own| own.add(100));
        LATE.local().add(1000);
    }
}

#[test]
fn thread_locals_may_count_while_they_are_destroyed() {
    thread_local! {
        static BEFORE: AtTheEnd = const { AtTheEnd(RefCell::new(None)) };
        static AFTER: AtTheEnd = const { AtTheEnd(RefCell::new(None)) };
    }
    for _ in 0..3 {
        thread::spawn(|| {
            // One is initialised before our own thread-local and one after it: one of them is destroyed later.
            BEFORE.with(|_| ());
            let own = LATE.local();
            own.inc();
            BEFORE.with(|end| *end.0.borrow_mut() = Some(own.clone()));
            AFTER.with(|end| *end.0.borrow_mut() = Some(own));
        })
        .join()
        .unwrap();
    }
    assert_eq!(LATE.snapshot().values(), 3 * (1 + 2 * 1110));
    assert_eq!(LATE.threads().iter().len(), 0, "all blocks were handed on");
}

#[test]
fn more_threads_at_once_than_blocks_were_ready() {
    let stats = PerThread::<Stats>::with_capacity(0);
    let claims: Vec<_> = (0..300).map(|i| stats.claim(&format!("t{i}"))).collect();
    claims.iter().for_each(|own| own.events.inc());
    assert_eq!(names(&stats).len(), 300);
    assert_eq!(names(&stats)[299], "t299");
    drop(claims);
    assert_eq!(stats.snapshot().values().events, 300);
    let before = stats.bytes();
    stats.reserve(200);
    assert_eq!(stats.bytes(), before, "the blocks that came back are ready");
}
