//! The whole runtime under random schedules: every step of every thread is shuttle's choice.
//!
//! `cargo xtask shuttle` builds it with `--cfg shuttle` and runs ten thousand schedules in all.
#![cfg(shuttle)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use doradd::{Access, Acquired, App, Ctx, Dispatch, Runtime, Table, read, replay_serial};
use shuttle::sync::Arc;
use shuttle::thread;

const SCHEDULES: usize = 1250;

fn check(test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, SCHEDULES);
}

#[test]
fn requests_keep_their_order() {
    check(|| {
        let runtime = Runtime::builder()
            .workers(2)
            .max_in_flight(2)
            .build()
            .unwrap();
        let (a, b) = (runtime.cown(Vec::new()), runtime.cown(0));
        for i in 0..5 {
            runtime.when((&a, read(&b)), move |(list, _)| list.push(i));
            if i % 2 == 0 {
                runtime.when(&b, |b| *b += 1);
            }
        }
        runtime.when((&a, &b), |(list, b)| {
            assert_eq!((&**list, *b), (&[0, 1, 2, 3, 4][..], 3))
        });
        assert_eq!(runtime.shutdown().panicked, 0);
    });
}

#[test]
fn several_threads_submit() {
    check(|| {
        let runtime = Arc::new(
            Runtime::builder()
                .workers(2)
                .max_in_flight(2)
                .build()
                .unwrap(),
        );
        let (a, b) = (runtime.cown(0), runtime.cown(0));
        let other = {
            let (runtime, a, b) = (Arc::clone(&runtime), a.clone(), b.clone());
            thread::spawn(move || {
                for _ in 0..3 {
                    runtime.when((&b, &a), |(b, a)| (*a, *b) = (*a + 1, *b + 1));
                }
            })
        };
        for _ in 0..3 {
            runtime.when((&a, &b), |(a, b)| (*a, *b) = (*a + 1, *b + 1));
        }
        other.join().unwrap();
        runtime.when((&a, &b), |(a, b)| assert_eq!((*a, *b), (6, 6)));
        runtime.drain();
        assert_eq!(runtime.stats().panicked, 0);
    });
}

#[test]
fn bodies_submit() {
    check(|| {
        let runtime = Arc::new(
            Runtime::builder()
                .workers(2)
                .max_in_flight(1)
                .build()
                .unwrap(),
        );
        let total = runtime.cown(0);
        for _ in 0..2 {
            let (again, total) = (Arc::clone(&runtime), total.clone());
            runtime.when(&runtime.cown(()), move |()| {
                again.when(&total, |total| *total += 1);
                again.when(&total, |total| *total += 1);
            });
        }
        runtime.drain();
        runtime.when(&total, |total| assert_eq!(*total, 4));
        runtime.drain();
        assert_eq!(runtime.stats().panicked, 0);
    });
}

#[test]
fn the_end_comes_with_work_in_flight() {
    check(|| {
        let runtime = Runtime::builder().workers(3).build().unwrap();
        let object = runtime.cown(0);
        for _ in 0..4 {
            runtime.when(&object, |object| *object += 1);
            runtime.when(read(&object), |_| ());
        }
        drop(object);
        let stats = runtime.shutdown();
        assert_eq!((stats.submitted, stats.executed), (8, 8));
    });
}

/// Mixes what a transaction reads into what it writes.
struct Machine(Table<u64>);

impl App for Machine {
    type Txn = [(usize, bool); 2];

    fn access<'a>(&'a self, txn: &Self::Txn, access: &mut Access<'a>) {
        for &(row, write) in txn {
            if write {
                access.write(&self.0, row);
            } else {
                access.read(&self.0, row);
            }
        }
    }

    fn execute(&self, _: &Self::Txn, mut rows: Acquired<'_>, ctx: &Ctx) {
        let mut hash = ctx.sequence().0 + 1;
        for i in 0..rows.len() {
            hash = (hash ^ *rows.read(&self.0, i)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            if rows.is_write(i) {
                *rows.write(&self.0, i) = hash;
            }
        }
    }
}

/// Replays a small log of conflicts, and compares with the serial execution.
fn replays(dispatch: Dispatch, workers: usize, in_flight: usize) {
    const LOG: [[(usize, bool); 2]; 7] = [
        [(0, true), (1, true)],
        [(0, false), (1, false)],
        [(1, false), (2, true)],
        [(0, false), (0, true)],
        [(2, false), (1, true)],
        [(1, true), (1, true)],
        [(0, true), (2, false)],
    ];
    check(move || {
        let machine = || Machine(Table::new(3, |row| row as u64));
        let (parallel, serial) = (machine(), machine());
        let mut runtime = Runtime::builder()
            .workers(workers)
            .max_in_flight(in_flight)
            .dispatch(dispatch)
            .build()
            .unwrap();
        let replayed = runtime.replay(LOG.into_iter(), &parallel).unwrap();
        replay_serial(LOG.into_iter(), &serial).unwrap();
        assert_eq!(replayed.executed, LOG.len() as u64);
        assert_eq!(parallel.0.state_digest(), serial.0.state_digest());
    });
}

#[test]
fn a_log_fused() {
    replays(Dispatch::Fused, 2, 2);
}

#[test]
fn a_log_fused_with_room() {
    replays(Dispatch::Fused, 3, 16);
}

#[test]
fn a_log_on_two_threads() {
    replays(Dispatch::FusedOnTwo, 1, 3);
}

#[test]
fn a_log_pipelined() {
    replays(Dispatch::Pipelined, 2, 4);
}
