//! What do more threads give? One command with different numbers of threads, run in turn.
//!
//! - [`default_points`]: the numbers of threads; [`rounds_needed`]: how often each is run at least.
//! - [`measure`]: rounds in which every point runs once, in an order of their own.
//! - [`judge`]: what the rounds say, in words; [`Fit`]: the Universal Scalability Law, where there are points enough.
//! - [`Scaled`]: all of it, for a report.
//!
//! # Caveats
//!
//! - Points with more threads than processors are time-sliced: they are measured and shown, and nothing follows from them.
//! - A run whose threads could not run side by side says nothing of what they do to each other. Where the kernel does not
//!   tell whether threads waited for processors, only threads that use most of theirs are believed.
//! - That a program gets slower with more threads has many causes; a shared line is one, a lock that sleeps another.

mod judge;
mod points;
mod rounds;
mod usl;

use hitm_model::Report;

use crate::metric::Metric;

pub use judge::{
    Judgement, Meaning, NoVerdict, PointEstimate, SideBySide, Unsaid, Verdict, Work, judge,
};
pub use points::{Threads, default_points, rounds_needed};
pub use rounds::{
    Ended, Executor, Failed, Hindered, NoValue, Observer, Plan, Point, PointRun, Rounds, measure,
};
pub use usl::{Fit, LEAST_POINTS, NoFit, Term};

/// An experiment, as it ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Scaled {
    /// The command as it was given, with `{n}` in it.
    pub command: Vec<String>,
    /// Variables that were set for it, perhaps with `{n}` in them.
    pub variables: Vec<(String, String)>,
    /// What was measured.
    pub metric: MetricName,
    /// The machine, in a line.
    pub machine: String,
    /// All runs.
    pub rounds: Rounds<String>,
    /// What they say.
    pub judgement: Judgement,
    /// What the lines do at the slowest point, if that was looked at.
    pub evidence: Option<Evidence>,
}

/// How the metric is called, and its unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricName {
    /// As it was given.
    pub name: String,
    /// Empty for a number that the command prints.
    pub unit: &'static str,
}

impl From<&Metric> for MetricName {
    fn from(metric: &Metric) -> Self {
        Self {
            name: metric.to_string(),
            unit: metric.unit(),
        }
    }
}

/// A recording of one more run.
#[derive(Clone, PartialEq, Debug)]
pub struct Evidence {
    /// With so many threads.
    pub threads: Threads,
    /// What `hitm run` says of it, or why there is nothing.
    pub report: Result<Report, String>,
}
