//! What a user may choose about an analysis.

use hitm_model::{LineSize, Nanos, SamplerInfo};

/// Choices; the default is what `hitm run` does.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The line size to judge by, instead of the recorded machine's.
    pub line_size: Option<LineSize>,
    /// Findings are hidden if no participant spends at least this share of its time at the line, from 0 to 1.
    pub min_share: f64,
    /// Whether true sharing where one thread writes what others read is listed as a finding, too.
    pub communication: bool,
    /// How threads are put together in participants.
    pub threads_by: ThreadsBy,
    /// How far apart two accesses may be to count as meeting, instead of [`default_window`].
    pub window: Option<Nanos>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            line_size: None,
            min_share: 0.01,
            communication: false,
            threads_by: ThreadsBy::Name,
            window: None,
        }
    }
}

/// How threads are put together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ThreadsBy {
    /// Threads of one name, digits at the end aside, that touch the same bytes are one participant.
    #[default]
    Name,
    /// Each thread stands alone.
    Tid,
}

/// The window in which two accesses count as meeting: ten sampling periods, from 2 to 100 ms.
///
/// Within ten periods a thread that is always at the line is seen there for certain, and one that is there in a tenth of
/// its time is likely to be; so what counts as meeting does not depend on the rate.
#[must_use]
pub fn default_window(sampler: Option<&SamplerInfo>) -> Nanos {
    let period = sampler.map_or(1_000_000, |sampler| sampler.period.0);
    Nanos(period.saturating_mul(10).clamp(2_000_000, 100_000_000))
}
