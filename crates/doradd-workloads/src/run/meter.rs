//! Latencies and counts of a run, taken where they happen and read while it runs.
//!
//! Each thread counts in a block of its own on lines of its own, so that measuring makes no two threads share a line.

use std::sync::OnceLock;
use std::time::Instant;

use doradd::Sequence;
use hitm_counters::{
    Counter, Counters, Histogram, HistogramValues, Max, PerThread, Snapshot, buckets,
};

use crate::request::{Outcome, Sink};

/// Latencies in nanoseconds up to 18 minutes, within 0.8 %.
type Latencies = Histogram<7, { buckets(7, 40) }>;

/// One thread's figures.
#[derive(Counters, Debug)]
pub(crate) struct Cells {
    /// Transactions taken from the log. Only the dispatcher takes.
    taken: Counter,
    /// From arrival to the end of the body.
    latencies: Latencies,
    longest: Max,
    /// How late the dispatcher was to take a transaction that was due.
    latest: Max,
}

/// When a transaction arrived: nanoseconds since the run began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Arrival(pub(crate) u64);

/// The figures of a run.
#[derive(Debug)]
pub struct Meter {
    began: OnceLock<Instant>,
    cells: PerThread<Cells>,
}

/// What a meter showed at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) at: u64,
    cells: Snapshot<Cells>,
}

impl Meter {
    /// A meter for so many threads, whose time begins with its first use.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self {
            began: OnceLock::new(),
            cells: PerThread::with_capacity(threads),
        }
    }

    /// Nanoseconds since the run began.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.began.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }

    /// The dispatcher has taken a transaction, so late after it was due.
    #[inline]
    pub(crate) fn taken(&self, late: u64) {
        self.cells.with(|own| {
            own.taken.inc();
            own.latest.see(late);
        });
    }

    pub(crate) fn reading(&self) -> Reading {
        Reading {
            at: self.now(),
            cells: self.cells.snapshot(),
        }
    }
}

impl Sink<Arrival> for Meter {
    #[inline]
    fn ended(&self, arrival: &Arrival, _: Sequence, _: Outcome) {
        let latency = self.now().saturating_sub(arrival.0);
        self.cells.with(|own| {
            own.latencies.record(latency);
            own.longest.see(latency);
        });
    }
}

/// Sums of all threads.
#[derive(Clone, Debug)]
pub(crate) struct Sums {
    pub(crate) taken: u64,
    pub(crate) latencies: HistogramValues,
    pub(crate) longest: Option<u64>,
    pub(crate) latest: Option<u64>,
}

impl Reading {
    pub(crate) fn sums(&self) -> Sums {
        sums(&self.cells)
    }

    /// What happened since an older reading. The longest are those of the whole run, because they cannot be divided.
    pub(crate) fn since(&self, older: &Self) -> Sums {
        // Nobody resets the cells.
        self.cells
            .since(&older.cells)
            .map_or_else(|| self.sums(), |cells| sums(&cells))
    }
}

fn sums(cells: &Snapshot<Cells>) -> Sums {
    let values = cells.values();
    Sums {
        taken: values.taken,
        latencies: values.latencies,
        longest: values.longest,
        latest: values.latest,
    }
}
