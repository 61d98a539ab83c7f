//! The figures of a run, as plain data.

use doradd::{Activity, Replayed};
use schemars::JsonSchema;
use serde::Serialize;

use crate::memory::resident;
use crate::run::meter::{Meter, Reading, Sums};

/// Latencies in nanoseconds, from a transaction's arrival to the end of its body.
///
/// Each is the upper end of its bucket, which is 0.8 % wide; the maximum is exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Latency {
    /// Half of the transactions took no longer.
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
pub struct Second {
    /// When it ended, in seconds since the run began.
    pub at_s: f64,
    /// Transactions that the dispatcher took, per second.
    pub spawned_per_s: f64,
    /// Transactions whose body ended, per second.
    pub executed_per_s: f64,
    /// Transactions whose body had ended since the run began.
    pub executed: u64,
    /// Transactions taken whose body had not ended at the end of the second.
    pub in_flight: u64,
    /// Transactions that a worker took from another's share, per second.
    pub stolen_per_s: f64,
    /// Times a worker fell asleep, per second.
    pub parked_per_s: f64,
    /// Of the bodies that ended in it, if any did.
    pub latency: Option<Latency>,
    /// Memory of the process that is in RAM, in bytes, if the system tells.
    pub resident_bytes: Option<u64>,
}

/// Counts of a whole run; see [`Replayed`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Counts {
    /// Transactions that ended, well or not.
    pub executed: u64,
    /// Of these: panicked.
    pub panicked: u64,
    /// Of these: not run because of a poisoned row.
    pub refused: u64,
    /// Of these: run by the dispatcher itself.
    pub helped: u64,
    /// Of these: taken by a worker from another's share.
    pub stolen: u64,
    /// Of these: run on the worker that had freed them, directly after. With one worker next to none: what has to wait
    /// mostly waits in its ring.
    pub handed: u64,
    /// Times a worker fell asleep.
    pub parked: u64,
}

/// What a run took.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Measured {
    /// From the first time the log was asked to the end of the last body, in seconds.
    pub took_s: f64,
    /// Transactions that the dispatcher took, per second of that time.
    pub spawned_per_s: f64,
    /// Transactions whose body ended, per second of that time.
    pub executed_per_s: f64,
    /// Counts of what happened.
    pub counts: Counts,
    /// Of all bodies, if there were any.
    pub latency: Option<Latency>,
    /// How late the dispatcher was at most to take a transaction that was due, in nanoseconds: with a schedule, what of the
    /// latency was spent before the runtime had the transaction.
    pub latest_ns: u64,
    /// The figures of each full second.
    pub seconds: Vec<Second>,
    /// Memory of the process that is in RAM at the end, in bytes, if the system tells.
    pub resident_bytes: Option<u64>,
}

/// The figures between two readings.
pub(crate) fn second(
    (before, workers_before): &(Reading, Activity),
    (now, workers_now): &(Reading, Activity),
) -> Second {
    let (interval, total) = (now.since(before), now.sums());
    let seconds = (now.at - before.at).max(1) as f64 / 1e9;
    let rate = |count: fn(&Activity) -> u64| {
        count(workers_now).saturating_sub(count(workers_before)) as f64 / seconds
    };
    Second {
        at_s: now.at as f64 / 1e9,
        spawned_per_s: interval.taken as f64 / seconds,
        executed_per_s: interval.latencies.count() as f64 / seconds,
        executed: total.latencies.count(),
        // The counts are read one after the other while both grow.
        in_flight: total.taken.saturating_sub(total.latencies.count()),
        stolen_per_s: rate(|workers| workers.stolen),
        parked_per_s: rate(|workers| workers.parked),
        latency: latency(&interval),
        resident_bytes: resident(),
    }
}

pub(crate) fn measured(
    replayed: Replayed,
    meter: &Meter,
    took: u64,
    seconds: Vec<Second>,
) -> Measured {
    let sums = meter.reading().sums();
    let took_s = took.max(1) as f64 / 1e9;
    Measured {
        took_s,
        spawned_per_s: sums.taken as f64 / took_s,
        executed_per_s: replayed.executed as f64 / took_s,
        counts: Counts {
            executed: replayed.executed,
            panicked: replayed.panicked,
            refused: replayed.refused,
            helped: replayed.helped,
            stolen: replayed.stolen,
            handed: replayed.handed,
            parked: replayed.parked,
        },
        latency: latency(&sums),
        latest_ns: sums.latest.unwrap_or(0),
        seconds,
        resident_bytes: resident(),
    }
}

fn latency(sums: &Sums) -> Option<Latency> {
    let max_ns = sums.longest?;
    let of = |quantile| Some(sums.latencies.quantile(quantile)?.min(max_ns));
    Some(Latency {
        p50_ns: of(0.5)?,
        p90_ns: of(0.9)?,
        p99_ns: of(0.99)?,
        p999_ns: of(0.999)?,
        max_ns,
    })
}
