//! What sharing costs, measured by putting threads on one core for a while.

use serde::{Deserialize, Serialize};

use crate::{Avma, Baseline, CoreDistance, GroupOutcome, Nanos, Register, SourceFrame, Svma, Tid};

/// What the windows of one group of threads showed.
#[derive(Clone, PartialEq, Debug)]
pub struct CoLocated {
    /// Each thread of the group.
    pub threads: Vec<ThreadCost>,
    /// How the cores of the windows apart are related.
    pub distance: CoreDistance,
    /// The processors that were used.
    pub cpus: Vec<u32>,
    /// How long a window is.
    pub window: Nanos,
    /// How many there were.
    pub windows: WindowCounts,
    /// Why there were no more.
    pub outcome: GroupOutcome,
    /// What placement alone does on these processors, by which the ratios are divided; `None` if it is not known.
    pub baseline: Option<Baseline>,
    /// Processor time that the threads lost by being put on one processor.
    pub lost: Nanos,
    /// As evidence of a finding: which kinds of sharing that is, as an estimate; `None` if no line was seen that they share.
    pub split: Option<Split>,
    /// As evidence of a finding: the part of what the threads share that is this finding, from 0 to 1, by how often samples
    /// met there; an estimate.
    pub part: Option<f64>,
    /// What else may be the cause where they share no line, the likeliest first.
    pub causes: Vec<Cause>,
}

/// Windows of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WindowCounts {
    /// Planned of each placement.
    pub planned: u32,
    /// Apart, that count.
    pub apart: u32,
    /// Together, that count.
    pub together: u32,
    /// That do not count: a thread did not get its processor.
    pub dropped: u32,
}

/// What sharing costs one thread.
#[derive(Clone, PartialEq, Debug)]
pub struct ThreadCost {
    /// The thread's name.
    pub name: String,
    /// The kernel's number of it; `None`: all threads of the group, measured by a word that counts for all.
    pub tid: Option<Tid>,
    /// The cost, or why there is none.
    pub cost: Result<Cost, NoCost>,
}

/// How much faster a thread runs without its opponents on other cores, per second of its own processor time.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// Speed together over speed apart; 1: no cost.
    pub ratio: Interval,
    /// How far windows apart differ among themselves, as a factor of at least 1: what is below it is not told from noise.
    pub floor: f64,
    /// By what progress was measured, the most reliable first. The interval spans all of them.
    pub measures: Vec<Measure>,
}

/// A ratio with an interval that holds it with 95 % confidence, as far as the windows differ at random.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// The estimate.
    pub ratio: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// One measure of progress and what it says.
#[derive(Clone, PartialEq, Debug)]
pub struct Measure {
    /// What was looked at.
    pub progress: Progress,
    /// What it says.
    pub ratio: Interval,
    /// How far it moved per second of the thread's processor time, apart; in units of the register or the word.
    pub per_second_apart: f64,
    /// The part of the thread's processor time in the windows that its steady steps are over, from 0 to 1: what it speaks
    /// for.
    pub coverage: f64,
    /// How much its speed varies inside a window: the median distance from the median, as a part of it.
    pub dispersion: f64,
    /// Steps from one look at it to the next, in all windows that count.
    pub steps: u64,
    /// Of these, steps that went on at about the same speed in the same direction: the ones that count.
    pub steady: u64,
    /// What the user called it, if it was named.
    pub named: Option<String>,
}

/// What tells how far a thread got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// A register at an instruction, or throughout a function: an induction variable.
    Register {
        /// Which.
        register: Register,
        /// The file name of the binary.
        binary: String,
        /// The instruction, in the file.
        address: Svma,
        /// Whether it was taken at all instructions of the function, not only at this one, its most frequent.
        throughout: bool,
        /// The function and the inlined ones around it, innermost first.
        frames: Vec<SourceFrame>,
    },
    /// A word in memory.
    Word {
        /// Its field path, or the address.
        name: String,
        /// Where it is.
        address: Avma,
    },
}

/// Why there is no cost.
#[derive(Clone, PartialEq, Debug)]
pub enum NoCost {
    /// The threads wait for each other, and being on one core changes that.
    TheyWait(Waiting),
    /// Nothing was found that tells how far the thread got.
    NoMeasure,
    /// What the user named does not tell how far the thread got.
    NamedUnfit {
        /// What the user called it.
        name: String,
        /// Why it does not: a clause with `it` as subject.
        why: String,
    },
    /// Measures that should agree do not: this is the lowest and the highest ratio.
    MeasuresDisagree {
        /// The lowest.
        low: f64,
        /// The highest.
        high: f64,
    },
    /// In too many windows a thread did not get its processor.
    TooFewWindows {
        /// So many.
        dropped: u32,
        /// Of so many.
        of: u32,
    },
    /// The thread ended, or the time was over, before there were enough windows.
    Ended {
        /// Done.
        done: u32,
        /// Planned in all.
        planned: u32,
    },
    /// The machine refused, for this reason.
    Refused(String),
}

/// How a thread of the group was seen to wait; nothing can be told of the others then either.
#[derive(Clone, PartialEq, Debug)]
pub enum Waiting {
    /// In loops that do nothing but look at what another thread of the group writes.
    Spins {
        /// Which thread.
        thread: String,
        /// The share of its samples in such loops, from 0 to 1: of the windows with more of them.
        share: f64,
        /// Where: the function and the inlined ones around it, innermost first.
        frames: Vec<SourceFrame>,
    },
    /// It sleeps.
    Sleeps {
        /// Which thread.
        thread: String,
        /// The share of the windows apart in which it neither ran nor could, from 0 to 1.
        share: f64,
        /// How often per second it gave its processor up.
        switches_per_second: f64,
    },
    /// On one processor it hands that over again and again, though nobody takes it away (`sched_yield`, wake-ups).
    HandsOver {
        /// Which thread.
        thread: String,
        /// How often per second of a window together.
        switches_per_second: f64,
    },
}

/// Which kinds of sharing there are, by how often samples met on which bytes: an estimate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Split {
    /// The part on disjoint bytes, from 0 to 1.
    pub false_sharing: f64,
    /// The part on the same bytes.
    pub true_sharing: f64,
}

/// What makes threads slow each other down though they share no line.
#[derive(Clone, PartialEq, Debug)]
pub enum Cause {
    /// They walk neighbouring memory, and the hardware prefetcher of one fetches lines of the other.
    Prefetcher {
        /// The name of the thread below.
        below: String,
        /// The name of the thread above.
        above: String,
        /// Bytes between what the two touch.
        gap: u64,
        /// Whether one of them walks towards the other; `None` if it was not seen where they walk.
        towards: Option<bool>,
    },
    /// Both read or write memory fast.
    Bandwidth {
        /// Bytes per second of both, at least, as sampled.
        bytes_per_second: f64,
    },
    /// Both use much memory.
    Capacity {
        /// Bytes that they use together, estimated by how often samples came back to a line (capture and recapture).
        bytes: u64,
    },
}

/// What to measure progress by, where the user says so.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum NamedProgress {
    /// A variable or a function.
    Symbol(String),
    /// A line of source code.
    Line {
        /// The file, or the end of its path.
        file: String,
        /// The line, from 1 on.
        line: u32,
    },
}
