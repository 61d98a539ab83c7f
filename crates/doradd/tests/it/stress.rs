//! Short runs one after the other, watched: none may stand still.
//!
//! What could stand still is the waiting: a ring of a bell that nobody hears, a transaction in a list that nobody closes. A
//! run that does not end is told with what there was to do, before the test runner would only say that it took too long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use doradd::{Access, Acquired, App, Ctx, Dispatch, Random, Runtime, Table, read};

/// Longer than any machine stops a thread for that still runs tests.
const STANDS_STILL: Duration = Duration::from_secs(if cfg!(miri) { 1200 } else { 60 });

/// Ends the process if no run has ended for long.
struct Watchdog {
    runs: Arc<AtomicU64>,
    doing: Arc<Mutex<String>>,
    ended: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watchdog {
    fn new() -> Self {
        let mut dog = Self {
            runs: Arc::default(),
            doing: Arc::default(),
            ended: Arc::default(),
            thread: None,
        };
        let (runs, doing, ended) = (
            Arc::clone(&dog.runs),
            Arc::clone(&dog.doing),
            Arc::clone(&dog.ended),
        );
        let watches = move || {
            let (mut last, mut since) = (0, Instant::now());
            while !ended.load(Relaxed) {
                thread::park_timeout(Duration::from_millis(100));
                let now = runs.load(Relaxed);
                if now != last {
                    (last, since) = (now, Instant::now());
                }
                if since.elapsed() > STANDS_STILL {
                    let doing = doing.lock().unwrap().clone();
                    let mut error = std::io::stderr();
                    let _ = std::io::Write::write_fmt(
                        &mut error,
                        format_args!("stands still after {now} runs in: {doing}\n"),
                    );
                    std::process::abort();
                }
            }
        };
        dog.thread = Some(thread::spawn(watches));
        dog
    }

    fn begins(&self, doing: String) {
        *self.doing.lock().unwrap() = doing;
    }

    fn ends(&self) {
        self.runs.fetch_add(1, Relaxed);
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// How long to go on: moments in a usual run of the tests, `DORADD_STRESS_SECONDS` of them by hand.
fn time() -> Duration {
    let asked = std::env::var("DORADD_STRESS_SECONDS").ok();
    let seconds = asked.and_then(|seconds| seconds.parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds)
}

struct Counters(Table<u64>);

impl App for Counters {
    type Txn = [usize; 3];

    fn access<'a>(&'a self, txn: &Self::Txn, access: &mut Access<'a>) {
        access.write(&self.0, txn[0]);
        access.read(&self.0, txn[1]);
        access.write(&self.0, txn[2]);
    }

    fn execute(&self, _: &Self::Txn, mut rows: Acquired<'_>, _: &Ctx) {
        *rows.write(&self.0, 0) += 1;
        *rows.write(&self.0, 2) += 1;
    }
}

#[test]
fn short_replays_all_end() {
    let (dog, began, mut random) = (Watchdog::new(), Instant::now(), Random::new(1));
    let modes = [
        Dispatch::Fused,
        Dispatch::FusedOnTwo,
        Dispatch::FusedOnThree,
        Dispatch::Pipelined,
    ];
    while began.elapsed() < time() {
        let dispatch = modes[random.below(4) as usize];
        let (workers, rows) = (
            1 + random.below(3),
            3 + random.below(if cfg!(miri) { 10 } else { 2000 }),
        );
        let (in_flight, n) = (
            1 + random.below(100),
            random.below(if cfg!(miri) { 10 } else { 3000 }),
        );
        dog.begins(format!(
            "{n} transactions on {rows} rows, {workers} workers, {dispatch:?}, {in_flight} in flight"
        ));
        let mut app = Counters(Table::new(rows as usize, |_| 0));
        let mut runtime = Runtime::builder()
            .workers(workers as usize)
            .max_in_flight(in_flight as usize)
            .dispatch(dispatch)
            .build()
            .unwrap();
        let log = (0..n).map(|_| std::array::from_fn(|_| random.below(rows) as usize));
        assert_eq!(runtime.replay(log, &app).unwrap().executed, n);
        assert_eq!(app.0.rows_mut().map(|row| *row).sum::<u64>(), 2 * n);
        dog.ends();
    }
}

#[test]
fn bursts_of_requests_all_end() {
    let (dog, began, mut random) = (Watchdog::new(), Instant::now(), Random::new(2));
    while began.elapsed() < time() {
        let (workers, in_flight) = (1 + random.below(3), 1 + random.below(100));
        let runtime = Runtime::builder()
            .workers(workers as usize)
            .max_in_flight(in_flight as usize)
            .build()
            .unwrap();
        let objects: Vec<_> = (0..20).map(|_| runtime.cown(0u64)).collect();
        let bursts = 1 + random.below(if cfg!(miri) { 3 } else { 50 });
        let mut submitted = 0;
        for _ in 0..bursts {
            let n = 1 + random.below(if cfg!(miri) { 5 } else { 20 });
            dog.begins(format!(
                "bursts of {n} requests, {workers} workers, {in_flight} in flight: {:?}",
                runtime.stats()
            ));
            for _ in 0..n {
                let (a, b) = (random.below(20) as usize, random.below(20) as usize);
                if a == b {
                    runtime.when(&objects[a], |a| *a += 1);
                } else {
                    runtime.when((&objects[a], read(&objects[b])), |(a, _)| *a += 1);
                }
            }
            submitted += n;
            // Sometimes the workers are asleep by the next burst, sometimes just falling asleep.
            match random.below(4) {
                0 => runtime.drain(),
                1 => thread::sleep(Duration::from_micros(random.below(200))),
                _ => {}
            }
            dog.ends();
        }
        let stats = runtime.shutdown();
        assert_eq!((stats.executed, stats.panicked), (submitted, 0));
    }
}
