//! What sharing costs, from windows in which threads were apart or together on one core.
//!
//! Cache lines travel between cores only. So a thread that is held up by its opponents gets more done per second of
//! its own processor time while all of them are on one core; what it gets done is told by *progress measures*:
//!
//! ```text
//!   samples at one instruction:  r12 = 1000 ─── 1800 ─── 2600     an induction variable: 800 a period
//!   a word only it writes:       hits = 1000 ── 1790 ─── 2611     read from outside at several moments
//!
//!   speed(window) = Σ moved / Σ processor time          ratio = mean speed together / mean speed apart
//! ```
//!
//! [`steps`] says whether a measure is good enough and what ratio it gives; [`registers`] and [`words`] find measures;
//! [`waiting`] looks for threads that wait for each other, of which nothing can be told this way; [`causes`] looks for
//! what else slows threads down that share no line; [`cost`] puts it together, and [`plan`] says beforehand which
//! threads are worth it. docs/prove.md has the assumptions and what they were checked with.

mod attach;
mod causes;
mod cost;
mod describe;
mod footprint;
mod interval;
mod named;
mod plan;
mod registers;
mod steps;
mod waiting;
mod windows;
mod words;

pub(crate) use attach::attach;
pub(crate) use cost::measure;
pub(crate) use describe::describe;
pub use plan::{PlanError, PlanOptions, plan};
pub use steps::{Assessment, Look, Step, Unfit, WindowSteps, assess};
pub(crate) use windows::Windows;
