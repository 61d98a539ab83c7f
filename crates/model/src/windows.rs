//! Windows: short stretches of a recording in which some threads were put on processors of hitm's choice.
//!
//! Threads on one processor send no cache line from core to core. What a thread gets done per second of its own
//! processor time with its opponents on other cores (*apart*), against the same with all of them on one (*together*),
//! is what their sharing costs it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Avma, AvmaRange, Nanos, Pid, ThreadId, Tid};

/// Where the threads of a group were.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Each on a core of its own.
    Apart,
    /// All on one processor.
    Together,
}

/// How the processors of the *apart* windows are related.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CoreDistance {
    /// Two hardware threads of one core.
    SmtSiblings,
    /// Two cores that share a cache of the second level, or a cluster.
    SameCluster,
    /// Two cores that share the last cache.
    SameCache,
    /// Two cores of one package without a common cache.
    SamePackage,
    /// Cores of different packages.
    OtherPackage,
    /// The machine does not tell.
    Unknown,
}

impl CoreDistance {
    /// The words for it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::SmtSiblings => "hardware threads of one core",
            Self::SameCluster => "cores of one cluster",
            Self::SameCache => "cores that share the last cache",
            Self::SamePackage => "cores of one package that share no cache",
            Self::OtherPackage => "cores of different packages",
            Self::Unknown => "cores that the machine does not tell apart",
        }
    }
}

impl fmt::Display for CoreDistance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.words())
    }
}

/// Threads to compare with themselves, apart and together; before anything has been done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedGroup {
    /// The threads, the most affected first; at least two, of one process.
    pub threads: Vec<PlannedThread>,
    /// Words in memory that may tell how far they got.
    pub words: Vec<Word>,
    /// The code that the user named: only registers there tell how far they got. Empty: any code.
    pub code: Vec<NamedCode>,
}

/// A thread by all its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PlannedThread {
    /// In the recording.
    pub thread: ThreadId,
    /// The process it was seen in.
    pub pid: Pid,
    /// The kernel's.
    pub tid: Tid,
}

/// A word in memory that counts what a thread gets done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Word {
    /// The only thread that writes it; `None`: it counts for the whole group, as the user said.
    pub thread: Option<ThreadId>,
    /// Where it is.
    pub address: Avma,
    /// Its size in bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// What the user called it, if it was the user who named it.
    pub name: Option<String>,
}

/// Code that the user named.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NamedCode {
    /// What the user called it.
    pub name: String,
    /// The instructions, in the process.
    pub ranges: Vec<AvmaRange>,
}

/// Threads that are compared with themselves, apart and together.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Its number in the recording.
    pub number: u32,
    /// The threads.
    pub threads: Vec<ThreadId>,
    /// Words in memory that are read in the windows.
    pub words: Vec<Word>,
    /// The code that the user named.
    pub code: Vec<NamedCode>,
    /// The processors, one for each thread: where it is in the windows apart, though they change places.
    pub cpus: Vec<u32>,
    /// How these are related.
    pub distance: CoreDistance,
    /// Windows planned of each placement.
    pub planned: u32,
    /// How long each is, without the time to settle before.
    pub length: Nanos,
    /// What placement alone does here, with threads that share nothing; `None` where it could not be measured.
    pub baseline: Option<Baseline>,
}

/// The speed of threads that share nothing, together against apart on the same processors, per second of their own
/// time: what turbo clocks and hardware threads of one core do to a ratio. 1 where they do nothing.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Baseline {
    /// The lowest ratio of several kinds of work.
    pub low: f64,
    /// The highest.
    pub high: f64,
}

/// One window, after it is over.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Of which group.
    pub group: u32,
    /// Where the threads were.
    pub placement: Placement,
    /// When all of them had been there for a while.
    pub start: Nanos,
    /// When they were still there.
    pub end: Nanos,
    /// What the kernel's accounts say of each of the group's threads, in the group's order.
    pub threads: Vec<WindowThread>,
    /// The readings of each of the group's words, in the group's order.
    pub words: Vec<Vec<Reading>>,
    /// Time that the hypervisor took from the processors used; `None` where the kernel does not say.
    pub stolen: Option<Nanos>,
}

/// A thread in a window: differences between the window's ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WindowThread {
    /// The processor it was put on.
    pub cpu: u32,
    /// Processor time it used.
    pub ran: Nanos,
    /// Time in which it could have run but others had the processor.
    pub waited: Nanos,
    /// How often it gave its processor up, to wait for something.
    pub voluntary: u32,
    /// How often its processor was taken away.
    pub involuntary: u32,
}

/// A word as it was at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reading {
    /// When.
    pub at: Nanos,
    /// The processor time that its thread (or all threads of the group) had used since the window's start.
    pub ran: Nanos,
    /// The value, zero-extended.
    pub value: u64,
}

/// No more windows of a group follow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct GroupEnd {
    /// Of which group.
    pub number: u32,
    /// Why.
    pub outcome: GroupOutcome,
    /// Processor time that its threads lost by it: what they waited for their processor in all of its windows.
    pub lost: Nanos,
}

/// Why no more windows of a group follow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GroupOutcome {
    /// All that were planned are done.
    Complete,
    /// One of its threads ended.
    ThreadEnded,
    /// The time for it was over.
    TimeOver,
    /// The user interrupted, or the recording ended.
    Interrupted,
    /// The machine refused, for this reason; it ends in what to do.
    Refused(String),
}
