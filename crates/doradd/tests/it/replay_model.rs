//! Logs replayed in every way there is end in the state of the serial execution.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use doradd::{
    Access, Acquired, App, Ctx, Dispatch, Log, Next, OnPanic, Random, Runtime, Table, replay_serial,
};
use proptest::prelude::*;

use crate::quiet::panic_on_purpose;

/// A transaction over two tables.
#[derive(Clone, Debug)]
pub(crate) struct Txn {
    /// Table, row, whether written.
    rows: Vec<(bool, usize, bool)>,
    yields: u8,
    panics: bool,
}

/// An order-sensitive state machine that checks exclusion as it goes.
struct Machine {
    small: Table<u64>,
    large: Table<[u64; 16]>,
    inside: Vec<AtomicU32>,
    policy: OnPanic,
}

const ROWS: usize = 6;
const WRITER: u32 = 1 << 16;

impl Machine {
    fn new(policy: OnPanic) -> Self {
        Self {
            small: Table::new(ROWS, |row| row as u64),
            large: Table::new(ROWS, |row| [row as u64; 16]),
            inside: (0..2 * ROWS).map(|_| AtomicU32::new(0)).collect(),
            policy,
        }
    }

    fn digest(&self) -> doradd::StateDigest {
        self.small.state_digest().and(self.large.state_digest())
    }

    /// Enters all rows, each once, in the strongest mode named.
    fn enter(&self, txn: &Txn) -> Vec<(usize, u32)> {
        let mut entered: Vec<(usize, u32)> = Vec::new();
        for &(large, row, write) in &txn.rows {
            let key = row + usize::from(large) * ROWS;
            let by = if write { WRITER } else { 1 };
            match entered.iter_mut().find(|(entered, _)| *entered == key) {
                Some((_, mode)) => *mode = (*mode).max(by),
                None => entered.push((key, by)),
            }
        }
        for &(key, by) in &entered {
            let before = self.inside[key].fetch_add(by, SeqCst);
            assert!(
                before == 0 || (by == 1 && before < WRITER),
                "row {key} is not ours alone"
            );
        }
        entered
    }
}

impl App for Machine {
    type Txn = Txn;
    const MAX_OBJECTS: usize = 12;

    fn access<'a>(&'a self, txn: &Txn, access: &mut Access<'a>) {
        for &(large, row, write) in &txn.rows {
            match (large, write) {
                (false, false) => access.read(&self.small, row),
                (false, true) => access.write(&self.small, row),
                (true, false) => access.read(&self.large, row),
                (true, true) => access.write(&self.large, row),
            }
        }
    }

    fn execute(&self, txn: &Txn, mut rows: Acquired<'_>, ctx: &Ctx) {
        let entered = self.enter(txn);
        let mut hash = ctx.random().bits() ^ ctx.sequence().0;
        for (i, &(large, _, write)) in txn.rows.iter().enumerate() {
            let value = if large {
                rows.read(&self.large, i)[15]
            } else {
                *rows.read(&self.small, i)
            };
            hash = (hash ^ value)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .rotate_left(29);
            if txn.yields > 0 && i % 2 == 0 {
                for _ in 0..txn.yields {
                    thread::yield_now();
                }
            }
            match (large, write) {
                (true, true) => rows.write(&self.large, i)[15] = hash,
                (false, true) => *rows.write(&self.small, i) = hash,
                _ => {}
            }
        }
        for (key, by) in entered {
            self.inside[key].fetch_sub(by, SeqCst);
        }
        if txn.panics {
            panic_on_purpose();
        }
    }

    fn seed(&self) -> u64 {
        42
    }

    fn on_panic(&self) -> OnPanic {
        self.policy
    }
}

/// A log that has nothing now and then.
struct Stuttering<I>(I, u32);

impl<I: Iterator<Item = Txn>> Log for Stuttering<I> {
    type Txn = Txn;

    fn next(&mut self) -> Next<Txn> {
        self.1 = self.1.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if self.1 >> 30 == 0 {
            return Next::NotYet;
        }
        self.0.next().map_or(Next::End, Next::Txn)
    }
}

const MODES: [Dispatch; 4] = [
    Dispatch::Fused,
    Dispatch::FusedOnTwo,
    Dispatch::FusedOnThree,
    Dispatch::Pipelined,
];

/// Replays a log in one way and compares with the serial execution.
fn check(
    txns: &[Txn],
    workers: usize,
    dispatch: Dispatch,
    in_flight: usize,
    policy: OnPanic,
    stutters: bool,
) {
    let (parallel, serial) = (Machine::new(policy), Machine::new(policy));
    let mut runtime = Runtime::builder()
        .workers(workers)
        .dispatch(dispatch)
        .max_in_flight(in_flight)
        .build()
        .unwrap();
    let log = txns.iter().cloned();
    let replayed = if stutters {
        runtime.replay(Stuttering(log, 7), &parallel)
    } else {
        runtime.replay(log, &parallel)
    }
    .unwrap();
    let expected = replay_serial(txns.iter().cloned(), &serial).unwrap();
    let context = format!("{workers} workers, {dispatch:?}, {in_flight} in flight, {policy:?}");
    assert_eq!(replayed.executed, txns.len() as u64, "{context}");
    assert_eq!(
        (replayed.panicked, replayed.refused, replayed.panics),
        (expected.panicked, expected.refused, expected.panics),
        "{context}"
    );
    assert_eq!(parallel.digest(), serial.digest(), "{context}");
}

fn log(n: usize, seed: u64, panics: u64) -> Vec<Txn> {
    let mut random = Random::new(seed);
    let mut below = |n: u64| random.below(n);
    (0..n)
        .map(|_| Txn {
            rows: (0..1 + below(6))
                .map(|_| (below(2) == 0, below(ROWS as u64) as usize, below(3) > 0))
                .collect(),
            yields: if below(20) == 0 { below(4) as u8 } else { 0 },
            panics: panics > 0 && below(panics) == 0,
        })
        .collect()
}

#[test]
fn any_number_of_workers_and_any_dispatcher_give_the_serial_state() {
    // Miri takes a thousand times as long.
    let txns = log(if cfg!(miri) { 30 } else { 1500 }, 1, 0);
    for workers in if cfg!(miri) { &[2][..] } else { &[1, 2, 3, 8] } {
        let workers = *workers;
        for dispatch in MODES {
            for in_flight in if cfg!(miri) {
                &[7][..]
            } else {
                &[1, 7, 64, 4096]
            } {
                let in_flight = *in_flight;
                // One at a time takes two switches of threads each, which on a busy machine take milliseconds.
                let n = if in_flight < 64 {
                    txns.len().min(200)
                } else {
                    txns.len()
                };
                check(
                    &txns[..n],
                    workers,
                    dispatch,
                    in_flight,
                    OnPanic::Continue,
                    in_flight == 64,
                );
            }
        }
    }
}

#[test]
fn panics_give_the_serial_state_under_either_policy() {
    let txns = log(if cfg!(miri) { 30 } else { 600 }, 2, 40);
    for policy in [OnPanic::Continue, OnPanic::Poison] {
        for workers in if cfg!(miri) { &[2][..] } else { &[1, 2, 8] } {
            let workers = *workers;
            for dispatch in MODES {
                check(&txns, workers, dispatch, 100, policy, true);
            }
        }
    }
}

fn txn() -> impl Strategy<Value = Txn> {
    let rows = proptest::collection::vec((any::<bool>(), 0..ROWS, any::<bool>()), 0..8);
    (
        rows,
        prop::sample::select(vec![0, 0, 0, 1, 3]),
        prop::bool::weighted(0.03),
    )
        .prop_map(|(rows, yields, panics)| Txn {
            rows,
            yields,
            panics,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn any_log_ends_as_if_run_one_by_one(
        txns in proptest::collection::vec(txn(), 0..if cfg!(miri) { 10 } else { 300 }),
        workers in 1..5usize,
        dispatch in prop::sample::select(MODES.to_vec()),
        in_flight in 1..50usize,
        poison in any::<bool>(),
        stutters in any::<bool>(),
    ) {
        let policy = if poison { OnPanic::Poison } else { OnPanic::Continue };
        check(&txns, workers, dispatch, in_flight, policy, stutters);
    }
}
