//! One run of a log: arrivals by a schedule, execution, what it took.
//!
//! [`execute`] gives the runtime a log whose transactions arrive when the [`Schedule`](arrivals::Schedule) says, has the
//! [`Meter`] told of each end, and reads the meter once a second meanwhile. Measuring is in `meter`, what the figures are
//! is in `figures`; printing is the front's.

pub mod arrivals;
mod check;
mod figures;
mod meter;
mod paced;

use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use doradd::{Activity, App, Log, ReplayError, Runtime, Watch};

use crate::request::Request;
use crate::run::arrivals::Arrivals;
use crate::run::paced::Paced;

pub use check::{Machine, Verified, verify};
pub use figures::{Counts, Latency, Measured, Second};
pub use meter::{Arrival, Meter};

/// How a log is executed.
#[derive(Debug)]
pub struct Plan<'p> {
    /// When transactions arrive.
    pub arrivals: Arrivals,
    /// What the generator of random arrivals starts from.
    pub seed: u64,
    /// No transaction is taken after that long.
    pub time: Option<Duration>,
    /// No transaction is taken once this is set.
    pub stop: &'p AtomicBool,
}

/// How often the meter is read.
const INTERVAL: Duration = Duration::from_secs(1);

/// Executes a log and measures. `watch` is given the figures of each second as it ends, on a thread of its own.
///
/// # Errors
/// As [`Runtime::replay`].
pub fn execute<A, L, B>(
    runtime: &mut Runtime,
    log: L,
    app: &A,
    meter: &Meter,
    plan: &Plan<'_>,
    watch: impl FnMut(&Second) + Send,
) -> Result<Measured, ReplayError>
where
    A: App<Txn = Request<Arrival, B>>,
    L: Log<Txn = B>,
{
    let paced = Paced::new(log, meter, plan);
    let (done, wait) = channel::<()>();
    let workers = runtime.watch();
    thread::scope(|scope| {
        let watcher = scope.spawn(move || watched(meter, &workers, &wait, watch));
        let replayed = runtime.replay(paced, app);
        let took = meter.now();
        drop(done);
        let seconds = match watcher.join() {
            Ok(seconds) => seconds,
            Err(payload) => std::panic::resume_unwind(payload),
        };
        Ok(figures::measured(replayed?, meter, took, seconds))
    })
}

/// Reads the meter and the workers' counts once a second until the sender is gone.
fn watched(
    meter: &Meter,
    workers: &Watch,
    done: &std::sync::mpsc::Receiver<()>,
    mut watch: impl FnMut(&Second),
) -> Vec<Second> {
    let mut seconds = Vec::new();
    // The counts are those of an earlier run until this one begins.
    let mut before = (meter.reading(), Activity::default());
    let mut tick = Instant::now() + INTERVAL;
    let wait = |tick: Instant| done.recv_timeout(tick.saturating_duration_since(Instant::now()));
    while let Err(RecvTimeoutError::Timeout) = wait(tick) {
        // By the clock, not from when this reading is done: figures of later seconds would begin later and later.
        tick += INTERVAL;
        let now = (meter.reading(), workers.now());
        let second = figures::second(&before, &now);
        watch(&second);
        seconds.push(second);
        before = now;
    }
    seconds
}
