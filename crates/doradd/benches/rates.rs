//! Rates of the runtime beside those of a serial loop, in interleaved runs of one process.
//!
//! Prints lines for `cargo xtask bench doradd`: the case, nanoseconds per request of the baseline and of the runtime, and
//! how many processors each used on average. What is in a line was measured one right after the other.
#![expect(clippy::print_stdout, reason = "a program of its own")]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has failed"
)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, process, thread};

use doradd::{Access, Acquired, App, Ctx, Dispatch, Random, Runtime, Table, read, replay_serial};
use nix::time::{ClockId, clock_gettime};

/// A row of 1 KiB.
#[repr(align(64))]
struct Row([u64; 128]);

/// Ten rows, and which of them are written.
struct Txn {
    keys: [u32; 10],
    writes: u16,
}

/// Reads sum a row; writes put what was summed so far into the first hundred bytes.
struct Ycsb {
    rows: Table<Row>,
}

impl App for Ycsb {
    type Txn = &'static Txn;
    const MAX_OBJECTS: usize = 10;
    const PREFETCH_LINES: usize = 2;

    fn access<'a>(&'a self, txn: &Self::Txn, access: &mut Access<'a>) {
        for (i, key) in txn.keys.iter().enumerate() {
            if txn.writes >> i & 1 == 1 {
                access.write(&self.rows, *key as usize);
            } else {
                access.read(&self.rows, *key as usize);
            }
        }
    }

    fn execute(&self, _: &Self::Txn, mut rows: Acquired<'_>, _: &Ctx) {
        let mut sum = 1u64;
        for i in 0..rows.len() {
            if rows.is_write(i) {
                let row = rows.write(&self.rows, i);
                sum = sum.wrapping_mul(31).wrapping_add(row.0[0]);
                row.0[..13].fill(sum);
            } else {
                let row = rows.read(&self.rows, i);
                sum = row.0.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
            }
        }
        black_box(sum);
    }
}

/// Ten rows that nothing is done to.
struct Empty {
    rows: Table<u64>,
}

impl App for Empty {
    type Txn = &'static Txn;
    const MAX_OBJECTS: usize = 10;
    const PREFETCH_LINES: usize = 0;

    fn access<'a>(&'a self, txn: &Self::Txn, access: &mut Access<'a>) {
        for key in &txn.keys {
            access.write(&self.rows, *key as usize);
        }
    }

    fn execute(&self, _: &Self::Txn, _: Acquired<'_>, _: &Ctx) {}
}

/// A log of so many requests, whose first `hot` keys are of 77 rows.
fn log(n: usize, rows: usize, hot: usize) -> &'static [Txn] {
    let mut random = Random::new(7);
    let txn = |_| Txn {
        keys: std::array::from_fn(|i| random.below(if i < hot { 77 } else { rows as u64 }) as u32),
        writes: random.below(1024) as u16,
    };
    Vec::leak((0..n).map(txn).collect())
}

struct Measured {
    nanos: f64,
    processors: f64,
}

/// Times a run of `n` requests.
fn measure(n: usize, run: impl FnOnce()) -> Measured {
    let cpu = || Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap());
    let (began, cpu_before) = (Instant::now(), cpu());
    run();
    let (wall, cpu) = (began.elapsed(), cpu() - cpu_before);
    Measured {
        nanos: wall.as_secs_f64() * 1e9 / n as f64,
        processors: cpu.as_secs_f64() / wall.as_secs_f64(),
    }
}

/// Runs both sides in turn and prints a line per pair; the first pair warms up and is not printed.
fn pairs(
    case: &str,
    runs: u32,
    mut base: impl FnMut() -> Measured,
    mut head: impl FnMut() -> Measured,
) {
    for i in 0..=runs {
        let (base, head) = if i % 2 == 0 {
            let base = base();
            (base, head())
        } else {
            let head = head();
            (base(), head)
        };
        if i > 0 {
            println!(
                "{case}\t{:.1}\t{:.1}\t{:.2}\t{:.2}",
                base.nanos, head.nanos, base.processors, head.processors
            );
        }
    }
}

fn runtime(dispatch: Dispatch) -> Runtime {
    let builder = Runtime::builder().workers(1).dispatch(dispatch);
    // A fourth argument is the bound on what is in flight.
    let in_flight = env::args().nth(4).and_then(|n| n.parse().ok());
    let builder = match in_flight {
        Some(n) => builder.max_in_flight(n),
        None => builder,
    };
    builder.build().unwrap()
}

fn replay<A: App<Txn = &'static Txn>>(
    case: &str,
    runs: u32,
    app: &A,
    log: &'static [Txn],
    dispatch: Dispatch,
) {
    let mut runtime = runtime(dispatch);
    let serial = || measure(log.len(), || drop(replay_serial(log.iter(), app).unwrap()));
    let parallel = || measure(log.len(), || drop(runtime.replay(log.iter(), app).unwrap()));
    pairs(case, runs, serial, parallel);
}

/// Nanoseconds of a line's way from one core to the other and back, by half.
fn line_transfer(n: u64) -> Measured {
    let ball = AtomicU64::new(0);
    let play = |mine: u64| {
        for i in (mine..n).step_by(2) {
            while ball.load(Ordering::Acquire) != i {
                std::hint::spin_loop();
            }
            ball.store(i + 1, Ordering::Release);
        }
    };
    measure(n as usize, || {
        thread::scope(|scope| {
            scope.spawn(|| play(1));
            play(0);
        });
    })
}

fn when(case: &str, runs: u32, objects: usize) {
    let runtime = runtime(Dispatch::Fused);
    let n = 500_000;
    // More objects than requests in flight: what is measured is the runtime, not waiting for one object.
    let cowns: Vec<_> = (0..16_384).map(|_| runtime.cown(0u64)).collect();
    let submit = || {
        measure(n, || {
            for i in 0..n {
                let (a, b) = (&cowns[i % cowns.len()], &cowns[(i + 1) % cowns.len()]);
                match objects {
                    1 => runtime.when(a, |_| ()),
                    2 => runtime.when((a, b), |_| ()),
                    _ => runtime.when((read(a), read(b)), |_| ()),
                }
            }
            runtime.drain();
        })
    };
    pairs(case, runs, || line_transfer(100_000), submit);
}

fn main() {
    let mut args = env::args().skip(1).filter(|arg| arg != "--bench");
    let (Some(case), Some(runs), Some(rows)) = (args.next(), args.next(), args.next()) else {
        println!("usage: rates CASE RUNS ROWS");
        process::exit(2);
    };
    let (runs, rows): (u32, usize) = (runs.parse().unwrap(), rows.parse().unwrap());
    let n = 400_000;
    let ycsb = || Ycsb {
        rows: Table::new(rows, |row| Row([row as u64; 128])),
    };
    match &*case {
        "uniform" => replay(&case, runs, &ycsb(), log(n, rows, 0), Dispatch::Fused),
        "moderate" => replay(&case, runs, &ycsb(), log(n, rows, 3), Dispatch::Fused),
        "high" => replay(&case, runs, &ycsb(), log(n, rows, 7), Dispatch::Fused),
        "pipelined" => replay(&case, runs, &ycsb(), log(n, rows, 0), Dispatch::Pipelined),
        "empty" => {
            let app = Empty {
                rows: Table::new(rows, |_| 0),
            };
            replay(&case, runs, &app, log(n, rows, 0), Dispatch::Fused);
        }
        "when1" => when(&case, runs, 1),
        "when2" => when(&case, runs, 2),
        "read2" => when(&case, runs, 3),
        _ => {
            println!("no case {case}");
            process::exit(2);
        }
    }
}
