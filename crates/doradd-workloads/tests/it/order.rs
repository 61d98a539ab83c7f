//! The state after a run is that of executing the log one by one: for every number of workers, way to dispatch, kind of
//! log, and with bodies that panic. And the other way round: another order is noticed.

use doradd::{Dispatch, OnPanic, Runtime, StateDigest, replay_serial};
use doradd_workloads::log::{Rows, Transaction};
use doradd_workloads::request::Request;
use doradd_workloads::ycsb::{Contention, Generator, Panics, Profile, Theta, WriteRatio, Ycsb};

const ROWS: Rows = Rows(200);

type Machine = Ycsb<(), (), 16>;

fn profile(contention: Contention, zipf: Option<f64>) -> Profile {
    Profile {
        rows: ROWS,
        seed: 5,
        contention,
        zipf: zipf.map(|theta| Theta::new(theta).unwrap()),
        write_ratio: WriteRatio::HALF,
    }
}

fn log(profile: &Profile, n: usize) -> Vec<Transaction> {
    Generator::new(profile).unwrap().take(n).collect()
}

fn requests(log: &[Transaction]) -> impl Iterator<Item = Request<(), Transaction>> {
    log.iter().map(|transaction| Request {
        tag: (),
        transaction: *transaction,
    })
}

fn serial(log: &[Transaction], panics: Option<Panics>) -> StateDigest {
    let machine = machine(panics);
    let replayed = replay_serial(requests(log), &machine).unwrap();
    assert_eq!(replayed.executed, log.len() as u64);
    machine.state_digest()
}

fn machine(panics: Option<Panics>) -> Machine {
    let machine = Machine::new(ROWS, ());
    match panics {
        Some(panics) => machine.panicking(panics),
        None => machine,
    }
}

const DISPATCHES: [Dispatch; 4] = [
    Dispatch::Fused,
    Dispatch::FusedOnTwo,
    Dispatch::FusedOnThree,
    Dispatch::Pipelined,
];

fn check(log: &[Transaction], panics: Option<Panics>) {
    let expected = serial(log, panics);
    for workers in [1, 2, 3, 8] {
        for dispatch in DISPATCHES {
            let mut runtime = Runtime::builder()
                .workers(workers)
                .dispatch(dispatch)
                .max_in_flight(64)
                .build()
                .unwrap();
            let machine = machine(panics);
            let replayed = runtime.replay(requests(log), &machine).unwrap();
            assert_eq!(replayed.executed, log.len() as u64);
            assert_eq!(
                machine.state_digest(),
                expected,
                "{workers} workers, {dispatch:?}, {panics:?}"
            );
        }
    }
}

#[test]
fn every_way_to_execute_gives_the_serial_state() {
    for contention in [Contention::No, Contention::Moderate, Contention::High] {
        for zipf in [None, Some(0.99)] {
            check(&log(&profile(contention, zipf), 400), None);
        }
    }
}

#[test]
fn also_with_bodies_that_panic() {
    let log = log(&profile(Contention::Moderate, None), 400);
    for then in [OnPanic::Continue, OnPanic::Poison] {
        let panics = Panics { every: 97, then };
        check(&log, Some(panics));
        assert_ne!(serial(&log, Some(panics)), serial(&log, None));
    }
}

#[test]
fn also_through_the_end_of_the_log_and_on_from_its_beginning() {
    let log = log(&profile(Contention::High, None), 150);
    let repeated: Vec<_> = log.iter().copied().cycle().take(500).collect();
    check(&repeated, None);
    assert_ne!(
        serial(&repeated[..150], None),
        serial(&repeated[..300], None)
    );
}

#[test]
fn a_row_that_is_named_twice_is_worked_on_twice() {
    let mut log = log(&profile(Contention::High, None), 100);
    log.push(Transaction::new([3; 10], 0b01_0101_0101).unwrap());
    log.extend_from_within(..50);
    check(&log, None);
    let once = Transaction::new([3, 4, 5, 6, 7, 8, 9, 10, 11, 12], 1).unwrap();
    let twice = Transaction::new([3, 3, 5, 6, 7, 8, 9, 10, 11, 12], 3).unwrap();
    assert_ne!(serial(&[once], None), serial(&[twice], None));
}

/// A wrong order would not be noticed if it gave the same digest.
#[test]
fn every_swap_of_conflicting_neighbours_shows_in_the_digest() {
    let log = log(&profile(Contention::High, None), 60);
    let expected = serial(&log, None);
    let conflict = |a: &Transaction, b: &Transaction| {
        let writes = |it: &Transaction, row| (0..10).any(|i| it.is_write(i) && it.keys()[i] == row);
        let meets = |a: &Transaction, b: &Transaction| b.keys().iter().any(|key| writes(a, *key));
        meets(a, b) || meets(b, a)
    };
    let mut conflicts = 0;
    for i in 0..log.len() - 1 {
        if conflict(&log[i], &log[i + 1]) {
            let mut swapped = log.clone();
            swapped.swap(i, i + 1);
            assert_ne!(
                serial(&swapped, None),
                expected,
                "transactions {i} and {}",
                i + 1
            );
            conflicts += 1;
        }
    }
    assert!(conflicts > 30, "{conflicts} neighbours conflict");
}

#[test]
fn a_table_that_is_made_anew_is_as_in_the_beginning() {
    let mut machine = Machine::new(ROWS, ());
    let fresh = machine.state_digest();
    replay_serial(requests(&log(&profile(Contention::No, None), 50)), &machine).unwrap();
    assert_ne!(machine.state_digest(), fresh);
    machine.reset();
    assert_eq!(machine.state_digest(), fresh);
}
