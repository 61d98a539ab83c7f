//! Replays: faults, panics of the user's code, tables, what is dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use doradd::{
    Access, Acquired, App, Ctx, Dispatch, Fault, ReplayError, Runtime, Sequence, Table,
    replay_serial,
};

use crate::quiet::panic_on_purpose;

const MODES: [Dispatch; 5] = [
    Dispatch::Auto,
    Dispatch::Fused,
    Dispatch::FusedOnTwo,
    Dispatch::FusedOnThree,
    Dispatch::Pipelined,
];

/// What a transaction of [`Counting`] does.
#[derive(Clone, Copy, Debug)]
enum Do {
    Add(usize),
    AddMany(usize),
    NoRow,
    PanicInAccess,
}

/// A request that counts how often requests are dropped.
struct Counted(Do, Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_add(1, SeqCst);
    }
}

struct Counting(Table<u64>);

impl App for Counting {
    type Txn = Counted;
    const MAX_OBJECTS: usize = 4;

    fn access<'a>(&'a self, txn: &Counted, access: &mut Access<'a>) {
        match txn.0 {
            Do::Add(row) => access.write(&self.0, row),
            Do::AddMany(n) => (0..n).for_each(|row| access.write(&self.0, row % 4)),
            Do::NoRow => access.read(&self.0, 99),
            Do::PanicInAccess => panic_on_purpose(),
        }
    }

    fn execute(&self, _: &Counted, mut rows: Acquired<'_>, _: &Ctx) {
        for i in 0..rows.len() {
            *rows.write(&self.0, i) += 1;
        }
    }
}

fn runtime(dispatch: Dispatch) -> Runtime {
    Runtime::builder()
        .workers(2)
        .max_in_flight(16)
        .dispatch(dispatch)
        .build()
        .unwrap()
}

/// Good requests before the bad one, and after it.
const GOOD: usize = if cfg!(miri) { 12 } else { 100 };

/// Replays good requests, one bad, good ones; gives what came of it, with the sum of all rows.
fn with_bad(dispatch: Dispatch, bad: Do) -> (Result<u64, ReplayError>, u64, bool) {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut app = Counting(Table::new(4, |_| 0));
    let log = (0..2 * GOOD + 1).map(|i| {
        let what = if i == GOOD { bad } else { Do::Add(i % 4) };
        Counted(what, Arc::clone(&drops))
    });
    let mut given = 0;
    let log = log.inspect(|_| given += 1);
    let result = catch_unwind(AssertUnwindSafe(|| runtime(dispatch).replay(log, &app)));
    assert_eq!(
        drops.load(SeqCst),
        given,
        "every request that was taken is dropped once"
    );
    let sum = app.0.rows_mut().map(|row| *row).sum();
    match result {
        Ok(result) => (result.map(|replayed| replayed.executed), sum, false),
        Err(_) => (Ok(0), sum, true),
    }
}

#[test]
fn a_wrong_row_stops_the_replay_at_its_place() {
    for dispatch in MODES {
        let (result, sum, _) = with_bad(dispatch, Do::NoRow);
        let fault = Fault::NoRow { row: 99, rows: 4 };
        let sequence = Sequence(GOOD as u64);
        assert_eq!(
            result,
            Err(ReplayError::Access { sequence, fault }),
            "{dispatch:?}"
        );
        assert_eq!(sum, GOOD as u64, "{dispatch:?}");
    }
    let (result, ..) = with_bad(Dispatch::Fused, Do::AddMany(5));
    let error = result.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("transaction {GOOD}: more than 4 rows: raise App::MAX_OBJECTS")
    );
}

#[test]
fn as_many_rows_as_allowed_are_fine() {
    let (result, sum, _) = with_bad(Dispatch::Fused, Do::AddMany(4));
    let all = 2 * GOOD as u64 + 1;
    assert_eq!((result, sum), (Ok(all), all + 3));
}

#[test]
fn a_panic_in_access_comes_out_after_what_is_in_the_graph() {
    for dispatch in MODES {
        let (_, sum, panicked) = with_bad(dispatch, Do::PanicInAccess);
        assert!(panicked && sum <= GOOD as u64, "{dispatch:?}: {sum}");
    }
}

#[test]
fn serial_replay_stops_at_the_same_place() {
    let mut app = Counting(Table::new(4, |_| 0));
    let drops = Arc::new(AtomicUsize::new(0));
    let log = [Do::Add(1), Do::Add(2), Do::NoRow, Do::Add(3)]
        .map(|what| Counted(what, Arc::clone(&drops)));
    let error = replay_serial(log.into_iter(), &app).unwrap_err();
    assert!(matches!(
        error,
        ReplayError::Access {
            sequence: Sequence(2),
            ..
        }
    ));
    assert_eq!(
        (
            app.0.rows_mut().map(|row| *row).sum::<u64>(),
            drops.load(SeqCst)
        ),
        (2, 4)
    );
}

#[test]
fn a_table_can_be_replayed_again() {
    let app = Counting(Table::new(4, |_| 0));
    let mut runtime = runtime(Dispatch::Fused);
    let drops = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let log = (0..50).map(|i| Counted(Do::Add(i % 3), Arc::clone(&drops)));
        assert_eq!(runtime.replay(log, &app).unwrap().executed, 50);
    }
    let Counting(mut table) = app;
    assert_eq!(*table.row_mut(0), 51);
    assert!(!table.is_empty());
}

struct Nested<'t>(&'t Table<u64>);

impl App for Nested<'_> {
    type Txn = ();

    fn access<'a>(&'a self, (): &(), access: &mut Access<'a>) {
        access.write(self.0, 0);
    }

    fn execute(&self, (): &(), mut rows: Acquired<'_>, _: &Ctx) {
        *rows.write(self.0, 0) += 1;
        let error = replay_serial([()].into_iter(), &Nested(self.0)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "transaction 0: its table is in use by another replay: wait for that one to end"
        );
        let digest = catch_unwind(AssertUnwindSafe(|| self.0.state_digest()));
        assert!(digest.is_err(), "no digest of a table in use");
    }
}

#[test]
fn a_table_in_use_is_refused_to_others() {
    let table = Table::new(1, |_| 0);
    let replayed = runtime(Dispatch::Fused)
        .replay([()].into_iter(), &Nested(&table))
        .unwrap();
    assert_eq!((replayed.executed, replayed.panicked), (1, 0));
}

struct Wrong(Table<u64>, Table<u64>);

impl App for Wrong {
    type Txn = u32;

    fn access<'a>(&'a self, _: &u32, access: &mut Access<'a>) {
        access.read(&self.0, 0);
        access.write(&self.1, 0);
        access.write(&self.1, 0);
    }

    fn execute(&self, txn: &u32, mut rows: Acquired<'_>, _: &Ctx) {
        match txn {
            0 => *rows.write(&self.0, 0) = 1,
            1 => *rows.write(&self.0, 1) = 1,
            2 => drop(rows.write_pair((&self.1, 1), (&self.1, 2))),
            3 => assert_eq!(*rows.read(&self.0, 3), 0),
            _ => assert!(
                rows.is_same(1, 2) && !rows.is_write(0) && rows.is_write(2) && !rows.is_empty()
            ),
        }
    }
}

#[test]
fn wrong_uses_of_rows_panic_in_the_body() {
    let app = Wrong(Table::new(1, |_| 0), Table::new(1, |_| 0));
    let replayed = runtime(Dispatch::Fused).replay(0..5, &app).unwrap();
    let messages: Vec<&str> = replayed.panics.values().map(String::as_str).collect();
    let expected = [
        "row 0 was named to be read, not written",
        "row 1 is of another table",
        "rows 1 and 2 are the same row",
        "row 3 of 3 that were named",
    ];
    assert_eq!(messages, expected);
}

struct TooMany;

impl App for TooMany {
    type Txn = ();
    const MAX_OBJECTS: usize = 65;
    fn access<'a>(&'a self, (): &(), _: &mut Access<'a>) {}
    fn execute(&self, (): &(), _: Acquired<'_>, _: &Ctx) {}
}

#[test]
fn more_rows_than_possible_are_refused() {
    let result = runtime(Dispatch::Fused).replay([()].into_iter(), &TooMany);
    assert_eq!(result, Err(ReplayError::MaxObjects(65)));
}

#[test]
fn requests_of_when_end_before_a_replay_begins() {
    let mut runtime = runtime(Dispatch::Fused);
    let table = Arc::new(Table::new(1, |_| 7u64));
    let seen = runtime.cown(0);
    let look = Arc::clone(&table);
    runtime.when(&seen, move |seen| {
        *seen = usize::from(look.state_digest() == look.state_digest())
    });
    struct Add<'t>(&'t Table<u64>);
    impl App for Add<'_> {
        type Txn = ();
        fn access<'a>(&'a self, (): &(), access: &mut Access<'a>) {
            access.write(self.0, 0);
        }
        fn execute(&self, (): &(), mut rows: Acquired<'_>, _: &Ctx) {
            *rows.write(self.0, 0) += 1;
        }
    }
    assert_eq!(
        runtime
            .replay([()].into_iter(), &Add(&table))
            .unwrap()
            .executed,
        1
    );
    runtime.when(&seen, |seen| assert_eq!(*seen, 1));
    assert_eq!(runtime.shutdown().panicked, 0);
}
