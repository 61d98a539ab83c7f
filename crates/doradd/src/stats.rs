//! What a runtime counts.

use crate::when::engine::When;

/// What a runtime has done; every figure is a count since it was built.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Requests submitted.
    pub submitted: u64,
    /// Requests that have ended, well or not.
    pub executed: u64,
    /// Requests whose body panicked.
    pub panicked: u64,
    /// Requests that were dropped unrun because of a poisoned object.
    pub refused: u64,
    /// Requests that a worker took from another's share.
    pub stolen: u64,
    /// Requests that ran on the worker that had freed them, directly after.
    pub handed: u64,
    /// Times a worker fell asleep for want of work.
    pub parked: u64,
    /// The messages of the first panics.
    pub panics: Vec<String>,
}

impl Stats {
    pub(crate) fn of(when: &When) -> Self {
        let crew = &when.crew;
        // What has ended first: so it is never more than what was submitted.
        let executed = crew.executed();
        let (panicked, refused, panics) = when.panicked();
        let counts = crew.counts();
        Self {
            submitted: when.submitted(),
            executed,
            panicked,
            refused,
            stolen: counts.stolen(),
            handed: counts.handed(),
            parked: counts.parked(),
            panics,
        }
    }

    /// Requests submitted that have not ended.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.submitted - self.executed
    }
}
