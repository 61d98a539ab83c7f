//! What the client measures, as plain data.

use std::time::Instant;

use hitm_counters::{
    Counter, Counters, Histogram, HistogramValues, Max, PerThread, Snapshot, buckets,
};
use schemars::JsonSchema;
use serde::Serialize;

/// Latencies in nanoseconds up to 18 minutes, within 0.8 %.
type Latencies = Histogram<7, { buckets(7, 40) }>;

const SECOND: u64 = 1_000_000_000;

/// Latencies in nanoseconds, from when a request was due (without a schedule: was given to its connection) to when its
/// reply was read.
///
/// Each is the upper end of its bucket, which is 0.8 % wide; the maximum is exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct ReplyLatency {
    /// Half of the requests took no longer.
    pub p50_ns: u64,
    /// Nine of ten took no longer.
    pub p90_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1,000 took no longer.
    pub p999_ns: u64,
    /// The longest took that long. In a second's figures: the longest of the run so far.
    pub max_ns: u64,
}

/// What happened in a second, or the like.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ReplySecond {
    /// When it ended, in seconds since the run began.
    pub at_s: f64,
    /// Requests given to connections, per second.
    pub sent_per_s: f64,
    /// Replies to requests with a place in the order, per second.
    pub answered_per_s: f64,
    /// Such replies since the run began.
    pub answered: u64,
    /// Of the replies that came in it, if any did.
    pub latency: Option<ReplyLatency>,
}

/// What a run took.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// From the first request to the last reply, in seconds.
    pub took_s: f64,
    /// Requests given to connections.
    pub sent: u64,
    /// Replies to requests with a place in the order.
    pub answered: u64,
    /// The same per second.
    pub answered_per_s: f64,
    /// Of all such replies, if there were any.
    pub latency: Option<ReplyLatency>,
    /// How late a request was given to a connection at most, in nanoseconds: because none had room, or the client was slow.
    pub latest_ns: u64,
    /// The figures of each full second.
    pub seconds: Vec<ReplySecond>,
}

#[derive(Counters, Debug)]
struct Cells {
    sent: Counter,
    latencies: Latencies,
    longest: Max,
    latest: Max,
}

/// Counts and times.
pub(crate) struct Meter {
    began: Instant,
    cells: PerThread<Cells>,
    /// What the last second began with.
    before: Snapshot<Cells>,
    second_began: u64,
    last_reply: u64,
    seconds: Vec<ReplySecond>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        let cells = PerThread::with_capacity(1);
        Self {
            began: Instant::now(),
            before: cells.snapshot(),
            cells,
            second_began: 0,
            last_reply: 0,
            seconds: Vec::new(),
        }
    }

    /// Nanoseconds since the run began.
    pub(crate) fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// A request was given to a connection, so late after it was due.
    pub(crate) fn sent(&mut self, late: u64) {
        self.cells.with(|own| {
            own.sent.inc();
            own.latest.see(late);
        });
    }

    /// A reply was read, so long after its request was due.
    pub(crate) fn answered(&mut self, latency: u64) {
        self.cells.with(|own| {
            own.latencies.record(latency);
            own.longest.see(latency);
        });
        self.last_reply = self.now();
    }

    /// The figures of the second that has ended, if one has.
    pub(crate) fn second(&mut self) -> Option<ReplySecond> {
        let now = self.now();
        let length = now - self.second_began;
        if length < SECOND {
            return None;
        }
        let snapshot = self.cells.snapshot();
        let all = snapshot.values();
        let seconds = length as f64 / 1e9;
        // Nobody resets the cells, so there is always a difference.
        let own = snapshot
            .since(&self.before)
            .map_or(all.clone(), |own| own.values());
        let second = ReplySecond {
            at_s: now as f64 / 1e9,
            sent_per_s: own.sent as f64 / seconds,
            answered_per_s: own.latencies.count() as f64 / seconds,
            answered: all.latencies.count(),
            latency: latency(&own.latencies, all.longest),
        };
        self.before = snapshot;
        self.second_began = now;
        self.seconds.push(second.clone());
        Some(second)
    }

    /// The figures of the run.
    pub(crate) fn figures(self) -> Figures {
        let all = self.cells.snapshot().values();
        let answered = all.latencies.count();
        let took_s = self.last_reply.max(1) as f64 / 1e9;
        Figures {
            took_s,
            sent: all.sent,
            answered,
            answered_per_s: answered as f64 / took_s,
            latency: latency(&all.latencies, all.longest),
            latest_ns: all.latest.unwrap_or(0),
            seconds: self.seconds,
        }
    }
}

fn latency(latencies: &HistogramValues, longest: Option<u64>) -> Option<ReplyLatency> {
    let max_ns = longest?;
    let of = |quantile| Some(latencies.quantile(quantile)?.min(max_ns));
    Some(ReplyLatency {
        p50_ns: of(0.5)?,
        p90_ns: of(0.9)?,
        p99_ns: of(0.99)?,
        p999_ns: of(0.999)?,
        max_ns,
    })
}
