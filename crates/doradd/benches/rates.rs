//! Rates of the runtime beside those of a serial loop, in interleaved runs of one process; its latency, its lookahead, and
//! its memory.
//!
//! Prints lines for `cargo xtask bench doradd`. Those of a rate: the case, nanoseconds per request of the baseline and of the
//! runtime, and how many processors each used on average. What is in a line was measured one right after the other.
#![expect(clippy::print_stdout, reason = "a program of its own")]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has failed"
)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use doradd::{
    Access, Acquired, App, Ctx, Dispatch, Log, Next, Random, Runtime, Table, read, replay_serial,
};
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

impl Ycsb {
    fn new(rows: usize) -> Self {
        Self {
            rows: Table::new(rows, |row| Row([row as u64; 128])),
        }
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

/// A log whose transactions arrive one by one, each so long after the one before.
struct Arrivals {
    log: &'static [Txn],
    began: Instant,
    gap: f64,
    next: usize,
}

impl Log for Arrivals {
    type Txn = (&'static Txn, Duration);

    fn next(&mut self) -> Next<Self::Txn> {
        let Some(txn) = self.log.get(self.next) else {
            return Next::End;
        };
        let arrives = Duration::from_nanos((self.next as f64 * self.gap) as u64);
        if self.began.elapsed() < arrives {
            return Next::NotYet;
        }
        self.next += 1;
        Next::Txn((txn, arrives))
    }
}

/// Notes for each transaction the time from its arrival to the end of its body.
struct Timed {
    app: Ycsb,
    began: Instant,
    nanos: Vec<AtomicU64>,
}

impl App for Timed {
    type Txn = (&'static Txn, Duration);
    const MAX_OBJECTS: usize = Ycsb::MAX_OBJECTS;
    const PREFETCH_LINES: usize = Ycsb::PREFETCH_LINES;

    fn access<'a>(&'a self, (txn, _): &Self::Txn, access: &mut Access<'a>) {
        self.app.access(txn, access);
    }

    fn execute(&self, (txn, arrived): &Self::Txn, rows: Acquired<'_>, ctx: &Ctx) {
        self.app.execute(txn, rows, ctx);
        let nanos = (self.began.elapsed() - *arrived).as_nanos() as u64;
        self.nanos[ctx.sequence().0 as usize].store(nanos, Ordering::Relaxed);
    }
}

/// Prints the time between two arrivals, and p50, p90, p99 of the time from arrival to end of body, in nanoseconds: half
/// as many arrive as the runtime did of a full log just before.
fn latency(runs: u32, rows: usize, hot: usize) {
    let log = log(400_000, rows, hot);
    let mut app = Ycsb::new(rows);
    let mut runtime = runtime(Dispatch::Fused);
    for i in 0..=runs {
        let full = measure(log.len(), || {
            drop(runtime.replay(log.iter(), &app).unwrap())
        });
        let gap = 2.0 * full.nanos;
        let began = Instant::now();
        let timed = Timed {
            app,
            began,
            nanos: log.iter().map(|_| AtomicU64::new(0)).collect(),
        };
        let arrivals = Arrivals {
            log,
            began,
            gap,
            next: 0,
        };
        let half = measure(log.len(), || {
            drop(runtime.replay(arrivals, &timed).unwrap());
        });
        let mut nanos: Vec<u64> = timed
            .nanos
            .iter()
            .map(|n| n.load(Ordering::Relaxed))
            .collect();
        nanos.sort_unstable();
        let quantile = |q: f64| nanos[(q * nanos.len() as f64) as usize];
        if i > 0 {
            println!(
                "latency\t{gap:.1}\t{}\t{}\t{}\t{:.2}",
                quantile(0.5),
                quantile(0.9),
                quantile(0.99),
                half.processors
            );
        }
        app = timed.app;
    }
}

/// Prints nanoseconds per request for each fixed lookahead and for the one that is found, and which that was.
fn lookahead(runs: u32, rows: usize, hot: usize) {
    let (app, log) = (Ycsb::new(rows), log(400_000, rows, hot));
    let distances = [Some(0), Some(2), Some(4), Some(8), Some(16), None];
    for i in 0..=runs {
        for distance in distances {
            let builder = Runtime::builder().workers(1).dispatch(Dispatch::Fused);
            let builder = match distance {
                Some(n) => builder.lookahead(n),
                None => builder,
            };
            let mut runtime = builder.build().unwrap();
            let mut found = 0;
            let measured = measure(log.len(), || {
                found = runtime.replay(log.iter(), &app).unwrap().lookahead;
            });
            let name = distance.map_or("found".to_owned(), |n| n.to_string());
            if i > 0 {
                println!(
                    "lookahead\t{name}\t{:.1}\t{:.2}\t{found}",
                    measured.nanos, measured.processors
                );
            }
        }
    }
}

/// Prints the resident memory in KiB at points of a log of a hundred million transactions.
fn memory(rows: usize) {
    const N: usize = 100_000_000;
    let app = Empty {
        rows: Table::new(rows, |_| 0),
    };
    let log = log(400_000, rows, 7);
    let mut taken = 0usize;
    let log = log.iter().cycle().take(N).inspect(|_| {
        if taken.is_multiple_of(N / 10) {
            println!("memory\t{taken}\t{}", resident());
        }
        taken += 1;
    });
    let replayed = runtime(Dispatch::Fused).replay(log, &app).unwrap();
    println!("memory\t{}\t{}", replayed.executed, resident());
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

fn main() {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let [case, runs, rows, hot @ ..] = &*args else {
        println!("usage: rates CASE RUNS ROWS [HOT]");
        process::exit(2);
    };
    let (runs, rows): (u32, usize) = (runs.parse().unwrap(), rows.parse().unwrap());
    let hot: usize = hot.first().map_or(0, |hot| hot.parse().unwrap());
    let n = 400_000;
    let fused = |hot| {
        replay(
            case,
            runs,
            &Ycsb::new(rows),
            log(n, rows, hot),
            Dispatch::Fused,
        );
    };
    match &**case {
        "uniform" => fused(0),
        "moderate" => fused(3),
        "high" => fused(7),
        "pipelined" => replay(
            case,
            runs,
            &Ycsb::new(rows),
            log(n, rows, 0),
            Dispatch::Pipelined,
        ),
        "empty" => {
            let app = Empty {
                rows: Table::new(rows, |_| 0),
            };
            replay(case, runs, &app, log(n, rows, 0), Dispatch::Fused);
        }
        "when1" => when(case, runs, 1),
        "when2" => when(case, runs, 2),
        "read2" => when(case, runs, 3),
        "latency" => latency(runs, rows, hot),
        "lookahead" => lookahead(runs, rows, hot),
        "memory" => memory(rows),
        _ => {
            println!("no case {case}");
            process::exit(2);
        }
    }
}
