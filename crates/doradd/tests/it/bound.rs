//! A replay never has more in flight than it may, whoever dispatches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use doradd::{Access, Acquired, App, Ctx, Dispatch, Log, Next, Runtime, Table};

/// Transactions that the dispatcher has taken, and of them those that are over.
#[derive(Default)]
struct Flights {
    taken: AtomicUsize,
    over: AtomicUsize,
    /// The most that were in flight at any time.
    most: AtomicUsize,
}

impl Flights {
    fn look(&self) {
        // In this order: what is taken and over by the second load was in flight at the first, and what is taken later is not
        // counted. So this is never too many.
        let taken = self.taken.load(SeqCst);
        let over = self.over.load(SeqCst);
        self.most.fetch_max(taken.saturating_sub(over), SeqCst);
    }
}

/// A transaction over one row, which is over when it is dropped.
struct Flight {
    row: usize,
    is_first: bool,
    all: Arc<Flights>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.all.over.fetch_add(1, SeqCst);
    }
}

/// Gives so many transactions, and has nothing now and then.
struct Flying {
    left: usize,
    n: usize,
    bound: usize,
    calls: usize,
    all: Arc<Flights>,
}

impl Log for Flying {
    type Txn = Flight;

    fn next(&mut self) -> Next<Flight> {
        self.calls += 1;
        if self.calls.is_multiple_of(5) {
            return Next::NotYet;
        }
        if self.left == 0 {
            return Next::End;
        }
        let i = self.n - self.left;
        self.left -= 1;
        // Only this thread takes, and what is over by now is over: no more than this are in flight.
        let over = self.all.over.load(SeqCst);
        let taken = self.all.taken.fetch_add(1, SeqCst) + 1;
        self.all.most.fetch_max(taken - over, SeqCst);
        Next::Txn(Flight {
            // As many as may be in flight wait for the first one: none is over before all of them are taken.
            row: if i < self.bound { 0 } else { i * 7 % 5 },
            is_first: i == 0,
            all: Arc::clone(&self.all),
        })
    }
}

struct Machine {
    rows: Table<u64>,
    bound: usize,
}

impl App for Machine {
    type Txn = Flight;

    fn access<'a>(&'a self, flight: &Flight, access: &mut Access<'a>) {
        access.write(&self.rows, flight.row);
    }

    fn execute(&self, flight: &Flight, mut rows: Acquired<'_>, _: &Ctx) {
        *rows.write(&self.rows, 0) += 1;
        let taken = || flight.all.taken.load(SeqCst);
        if flight.is_first {
            // As many are taken as may be, and not one more while this one runs.
            while taken() < self.bound {
                thread::yield_now();
            }
            for _ in 0..50 {
                thread::yield_now();
                assert_eq!(taken(), self.bound);
            }
        }
        flight.all.look();
    }
}

fn check(dispatch: Dispatch, workers: usize, bound: usize) {
    let n = 3 * bound + if cfg!(miri) { 20 } else { 300 };
    let machine = Machine {
        rows: Table::new(5, |_| 0),
        bound,
    };
    let all = Arc::new(Flights::default());
    let mut runtime = Runtime::builder()
        .workers(workers)
        .max_in_flight(bound)
        .dispatch(dispatch)
        .build()
        .unwrap();
    let log = Flying {
        left: n,
        n,
        bound,
        calls: 0,
        all: Arc::clone(&all),
    };
    let replayed = runtime.replay(log, &machine).unwrap();
    let context = format!("{dispatch:?}, {workers} workers, {bound} in flight");
    assert_eq!(
        (replayed.executed, replayed.panicked),
        (n as u64, 0),
        "{context}: {:?}",
        replayed.panics
    );
    assert_eq!(all.most.load(SeqCst), bound, "{context}");
    assert_eq!(all.over.load(SeqCst), n, "{context}");
}

#[test]
fn never_more_is_in_flight_than_may_be() {
    for dispatch in [
        Dispatch::Fused,
        Dispatch::FusedOnTwo,
        Dispatch::FusedOnThree,
        Dispatch::Pipelined,
    ] {
        for workers in if cfg!(miri) { &[2][..] } else { &[1, 2, 8] } {
            for bound in if cfg!(miri) { &[7][..] } else { &[1, 2, 7, 64] } {
                check(dispatch, *workers, *bound);
            }
        }
    }
}
