//! Experiments whose verdicts can be trusted: what to run next, and what the results say.
//!
//! Nothing here starts a program, reads a clock or prints: an [`Executor`] that the caller brings does the runs, so that
//! all of it can be tried with simulated ones. The unit is a fresh run of a command; two runs next to each other are a
//! pair; what counts is the logarithm of the ratio within a pair.

#![forbid(unsafe_code)]

mod changes;
mod comparable;
mod compared;
mod differences;
mod evidence;
mod history;
mod holm;
mod judge;
mod looks;
mod lots;
mod median;
mod metric;
mod order;
mod ratio;
mod row;
pub mod scale;
pub mod shake;
mod signed_rank;
mod suite;
mod suite_file;
mod trial;

pub use changes::{Change, Detected, LEAST_POINTS, detect};
pub use comparable::{
    GitFacts, GitRelation, LibraryFacts, ProgramFacts, Refusal, SideFacts, refusals,
};
pub use compared::{ComparedRow, Comparison, DecidedBy};
pub use differences::{Difference, different_libraries, different_variables};
pub use evidence::{Evidence, Mechanism, Recording, SharedObjects, Sharing};
pub use history::{History, Measure, Point, Series, SeriesKey};
pub use holm::holm;
pub use judge::{Better, Estimate, Outcome, running_estimate};
pub use looks::{ERROR, Look, Looks};
pub use lots::Lots;
pub use metric::{Measured, Metric, MetricError};
pub use ratio::{LogRatio, Range};
pub use row::{Ended, Executor, Floor, Observer, Plan, Purpose, Row, Unusable, run};
pub use suite::{Suspicious, Verdict, conclude};
pub use suite_file::{CommandSpec, RowSpec, Settings, Suite, SuiteError};
pub use trial::{Busiest, Disturbed, Health, Pair, Seconds, Side, Trial};
