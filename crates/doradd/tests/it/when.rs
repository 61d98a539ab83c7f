//! Requests from any thread: order, exclusion, sharing, panics, back-pressure, the end.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use doradd::{BuildError, OnPanic, Runtime, read};

/// So many, or a few under Miri, which takes a thousand times as long.
const fn many<const N: usize>() -> usize {
    if cfg!(miri) { N / 100 } else { N }
}

fn runtime(workers: usize) -> Runtime {
    // Miri takes a while to make a thousand records.
    let in_flight = if cfg!(miri) { 32 } else { 1024 };
    let builder = Runtime::builder().workers(workers);
    builder.max_in_flight(in_flight).build().unwrap()
}

#[test]
fn requests_for_one_object_run_in_the_order_of_submission() {
    for &workers in if cfg!(miri) { &[2][..] } else { &[1, 2, 3, 8] } {
        let runtime = runtime(workers);
        let list = runtime.cown(Vec::new());
        let n = many::<10_000>();
        for i in 0..n {
            runtime.when(&list, move |list| list.push(i));
        }
        let (tell, told) = mpsc::channel();
        runtime.when(&list, move |list| tell.send(std::mem::take(list)).unwrap());
        assert!(
            told.recv().unwrap().into_iter().eq(0..n),
            "{workers} workers"
        );
        let stats = runtime.shutdown();
        assert_eq!(
            (stats.submitted, stats.executed, stats.in_flight()),
            (n as u64 + 1, n as u64 + 1, 0)
        );
    }
}

#[test]
fn writers_exclude_everyone_and_readers_only_writers() {
    let runtime = runtime(3);
    let object = runtime.cown(());
    let inside = Arc::new(AtomicU32::new(0));
    const WRITER: u32 = 1 << 16;
    for i in 0..many::<3000>() {
        let inside = Arc::clone(&inside);
        if i % 3 == 0 {
            runtime.when(&object, move |()| {
                assert_eq!(inside.fetch_add(WRITER, SeqCst), 0);
                thread::yield_now();
                inside.fetch_sub(WRITER, SeqCst);
            });
        } else {
            runtime.when(read(&object), move |()| {
                assert!(inside.fetch_add(1, SeqCst) < WRITER);
                thread::yield_now();
                inside.fetch_sub(1, SeqCst);
            });
        }
    }
    assert_eq!(runtime.shutdown().panicked, 0);
}

#[test]
fn readers_run_at_the_same_time() {
    let runtime = runtime(2);
    let object = runtime.cown(5);
    let both = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let both = Arc::clone(&both);
        runtime.when(read(&object), move |five| {
            both.wait();
            assert_eq!(*five, 5);
        });
    }
    assert_eq!(runtime.shutdown().panicked, 0);
}

#[test]
fn objects_in_opposite_orders_from_several_threads_do_not_deadlock() {
    let runtime = Arc::new(runtime(2));
    let (a, b, c) = (runtime.cown(0u64), runtime.cown(0u64), runtime.cown(0u64));
    let threads: Vec<_> = (0..4)
        .map(|i| {
            let (runtime, a, b, c) = (Arc::clone(&runtime), a.clone(), b.clone(), c.clone());
            thread::spawn(move || {
                for _ in 0..many::<2000>() {
                    match i {
                        0 => runtime.when((&a, &b, &c), |(a, b, c)| {
                            (*a, *b, *c) = (*a + 1, *b + 1, *c + 1)
                        }),
                        1 => runtime.when((&c, &b, &a), |(c, b, a)| {
                            (*a, *b, *c) = (*a + 1, *b + 1, *c + 1)
                        }),
                        2 => runtime.when((&b, &a), |(b, a)| (*a, *b) = (*a + 1, *b + 1)),
                        _ => runtime.when((read(&a), &c), |(_, c)| *c += 1),
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    runtime.when((&a, &b, &c), |(a, b, c)| {
        let each = 3 * many::<2000>() as u64;
        assert_eq!((*a, *b, *c), (each, each, each))
    });
    runtime.drain();
    assert_eq!(runtime.stats().panicked, 0);
}

#[test]
fn bodies_submit_more_without_waiting() {
    let runtime = Arc::new(
        Runtime::builder()
            .workers(2)
            .max_in_flight(4)
            .build()
            .unwrap(),
    );
    let (bodies, each) = if cfg!(miri) { (4, 5) } else { (20, 50) };
    let total = runtime.cown(0u64);
    for _ in 0..bodies {
        let (again, total) = (Arc::clone(&runtime), total.clone());
        let start = runtime.cown(());
        runtime.when(&start, move |()| {
            for _ in 0..each {
                again.when(&total, |total| *total += 1);
            }
        });
    }
    runtime.drain();
    runtime.when(&total, move |total| assert_eq!(*total, bodies * each));
    runtime.drain();
    let stats = runtime.stats();
    assert_eq!(
        (stats.submitted, stats.panicked),
        (bodies * (each + 1) + 1, 0)
    );
}

#[test]
fn submitters_wait_at_the_bound() {
    let runtime = Arc::new(
        Runtime::builder()
            .workers(1)
            .max_in_flight(3)
            .build()
            .unwrap(),
    );
    let gate = Arc::new(Barrier::new(2));
    let object = runtime.cown(());
    let waiting = Arc::clone(&gate);
    runtime.when(&object, move |()| {
        waiting.wait();
    });
    let n = if cfg!(miri) { 10 } else { 100 };
    let returned = Arc::new(AtomicUsize::new(0));
    let submitter = {
        let (runtime, returned) = (Arc::clone(&runtime), Arc::clone(&returned));
        thread::spawn(move || {
            for _ in 0..n {
                runtime.when(&object, |()| ());
                returned.fetch_add(1, SeqCst);
            }
        })
    };
    while returned.load(SeqCst) < 2 {
        thread::yield_now();
    }
    for _ in 0..n {
        thread::yield_now();
        assert!(returned.load(SeqCst) == 2 && runtime.stats().in_flight() <= 3);
    }
    gate.wait();
    submitter.join().unwrap();
    runtime.drain();
    assert_eq!(runtime.stats().executed, n + 1);
}

#[test]
fn a_panic_releases_the_objects_and_is_reported() {
    let runtime = runtime(2);
    let (a, b) = (runtime.cown(0), runtime.cown(0));
    runtime.when((&a, &b), |(a, _)| {
        *a = 1;
        panic!("body {}", 7);
    });
    runtime.when((&a, &b), |(a, b)| *b = *a + 1);
    runtime.when(&b, |b| assert_eq!(*b, 2));
    let stats = runtime.shutdown();
    assert_eq!(
        (stats.panicked, stats.refused, stats.panics),
        (1, 0, vec!["body 7".to_owned()])
    );
}

#[test]
fn poisoned_objects_refuse_later_bodies_until_cleared() {
    let runtime = Runtime::builder()
        .workers(2)
        .on_panic(OnPanic::Poison)
        .build()
        .unwrap();
    let (a, b, c) = (runtime.cown(0), runtime.cown(0), runtime.cown(0));
    runtime.when((&a, read(&b)), |_| panic!("spoilt"));
    runtime.when((&a, &c), |_| unreachable!());
    runtime.when((&b, &c), |(b, c)| (*b, *c) = (1, 1));
    runtime.drain();
    assert_eq!(
        (a.is_poisoned(), b.is_poisoned(), c.is_poisoned()),
        (true, false, false)
    );
    a.clear_poison();
    runtime.when((&a, &b, &c), |(a, b, c)| {
        assert_eq!((*a, *b, *c), (0, 1, 1))
    });
    let stats = runtime.shutdown();
    assert_eq!((stats.panicked, stats.refused), (1, 1));
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn objects_and_closures_are_dropped_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let runtime = runtime(2);
    let n = many::<1000>();
    for i in 0..n {
        let object = runtime.cown(Dropped(Arc::clone(&drops)));
        let captured = Dropped(Arc::clone(&drops));
        if i % 2 == 0 {
            runtime.when(&object, move |_| drop(captured));
        } else {
            let large = [i; 100];
            runtime.when(&object, move |_| {
                assert_eq!((large[99], captured.0.load(SeqCst) < 4 * n), (i, true));
            });
        }
        if i % 5 == 0 {
            runtime.when((&object, &runtime.cown(1)), |_| ());
        }
    }
    // Objects that are never used, and ones that outlive their runtime.
    drop(runtime.cown(Dropped(Arc::clone(&drops))));
    let outlives = runtime.cown(Dropped(Arc::clone(&drops)));
    assert_eq!(runtime.shutdown().panicked, 0);
    assert_eq!(drops.load(SeqCst), 2 * n + 1);
    drop(outlives);
    assert_eq!(drops.load(SeqCst), 2 * n + 2);
}

#[test]
fn an_object_twice_is_fine_to_read_only() {
    let runtime = runtime(1);
    let object = runtime.cown(3);
    runtime.when((read(&object), read(&object)), |(a, b)| {
        assert_eq!(*a + *b, 6)
    });
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.when((&object, read(&object)), |_| ());
    }));
    assert!(refused.is_err());
    runtime.when(&object, |object| *object += 1);
    let stats = runtime.shutdown();
    assert_eq!((stats.executed, stats.panicked), (2, 0));
}

#[test]
fn objects_of_another_runtime_are_refused() {
    let (mine, other) = (runtime(1), runtime(1));
    let object = other.cown(());
    let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        mine.when(&object, |()| ());
    }));
    assert!(refused.is_err());
    other.when(&object, |()| ());
    assert_eq!(
        (mine.shutdown().submitted, other.shutdown().executed),
        (0, 1)
    );
}

#[test]
fn the_last_handle_may_be_dropped_in_a_body() {
    let runtime = Arc::new(runtime(2));
    let ended = Arc::new(AtomicBool::new(false));
    let object = runtime.cown(());
    let (again, ran) = (Arc::clone(&runtime), Arc::clone(&ended));
    let gate = Arc::new(Barrier::new(2));
    let opened = Arc::clone(&gate);
    runtime.when(&object, move |()| {
        opened.wait();
        again.when(&again.cown(()), move |()| ran.store(true, SeqCst));
        drop(again);
    });
    drop(runtime);
    gate.wait();
    while !ended.load(SeqCst) {
        thread::yield_now();
    }
}

#[test]
fn what_cannot_be_built_is_told() {
    let build = |builder: doradd::Builder| builder.build().unwrap_err();
    assert!(matches!(
        build(Runtime::builder().workers(0)),
        BuildError::Workers(0)
    ));
    assert!(matches!(
        build(Runtime::builder().max_in_flight(0)),
        BuildError::MaxInFlight(0)
    ));
    let error = build(Runtime::builder().pin([1000]));
    assert!(
        matches!(
            error,
            BuildError::Pin {
                processor: 1000,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_body_cannot_drain_its_runtime() {
    let runtime = Arc::new(runtime(1));
    let again = Arc::clone(&runtime);
    runtime.when(&runtime.cown(()), move |()| again.drain());
    while runtime.stats().executed == 0 {
        thread::yield_now();
    }
    assert_eq!(runtime.stats().panicked, 1);
}

#[test]
fn four_threads_submit_at_the_bound() {
    let runtime = Arc::new(
        Runtime::builder()
            .workers(2)
            .max_in_flight(8)
            .build()
            .unwrap(),
    );
    let total = runtime.cown(0u64);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let own = runtime.cown(0u64);
                for _ in 0..many::<5000>() {
                    runtime.when((&own, &total), |(own, total)| {
                        (*own, *total) = (*own + 1, *total + 1)
                    });
                }
            });
        }
    });
    runtime.when(&total, |total| {
        assert_eq!(*total, 4 * many::<5000>() as u64)
    });
    runtime.drain();
    assert_eq!(runtime.stats().panicked, 0);
}
