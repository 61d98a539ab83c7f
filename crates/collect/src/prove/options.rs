//! What proving is asked for, and what came of it.

use std::{ffi::OsString, fmt, time::Duration};

use hitm_model::PlannedGroup;

/// How to prove.
#[derive(Clone, Debug)]
pub struct ProveOptions {
    /// How long to sample before the planner is asked, each time.
    pub sample_for: Duration,
    /// Windows of each placement; `None`: as many as are usual and fit into the time.
    pub windows: Option<u32>,
    /// How long a window is; `None`: as long as is usual.
    pub length: Option<Duration>,
    /// How long all windows of all groups may take; `None`: as long as is usual.
    pub budget: Option<Duration>,
    /// Whether each pair is tried on every kind of core pair that the machine has.
    pub matrix: bool,
    /// What comes after the windows.
    pub after: AfterWindows,
    /// A command that calls [`guardian`](super::guardian): hitm itself, usually.
    pub guardian: Vec<OsString>,
    /// Decides the order of the windows; `None`: the clock does.
    pub seed: Option<u64>,
}

/// What comes after the windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AfterWindows {
    /// The recording is over; a program that we started is ended.
    Stop,
    /// The recording goes on as if there had been none.
    GoOn,
}

/// Says what to prove, once asked; asked again and again until it has thought.
pub trait Planner {
    /// What to prove, by the recording as it is when it is asked first; `None` while it thinks. After an answer, the next
    /// call is a new question.
    fn plan(&mut self) -> Option<Planned>;
}

/// What a planner says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Planned {
    /// These groups, in this order.
    Groups(Vec<PlannedGroup>),
    /// Nothing yet, for this reason: sample on and ask again.
    NothingYet(String),
    /// Nothing at all, for this reason, which is for the user.
    Refused(String),
}

/// What to prove, and who says so.
pub struct Prove<'a> {
    /// How.
    pub options: &'a ProveOptions,
    /// What.
    pub planner: &'a mut dyn Planner,
}

impl fmt::Debug for Prove<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prove")
            .field("options", self.options)
            .finish_non_exhaustive()
    }
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Proved {
    /// It was not asked for.
    NotAsked,
    /// Windows of so many groups were completed; the recording says what became of the others.
    Windows {
        /// That many.
        groups: u32,
    },
    /// The recording was over before there was anything to prove, for this reason.
    Nothing(String),
    /// It was refused, for this reason.
    Refused(String),
}

/// What a recording is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Sampling.
    #[default]
    Sampling,
    /// Sampling, while the planner thinks.
    Planning,
    /// Windows. All counts begin at 1.
    Window {
        /// The window.
        window: u32,
        /// Windows of this group.
        windows: u32,
        /// The group.
        group: u32,
        /// Groups in all.
        groups: u32,
    },
}
