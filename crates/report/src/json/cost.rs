//! The types of a measured cost in the JSON document. Their documentation becomes the schema's descriptions.

use schemars::JsonSchema;
use serde::Serialize;

use super::document::{Frame, Hex};

/// A finding's cost in one number.
#[derive(Serialize, JsonSchema)]
pub(super) struct Measured {
    /// What the number is.
    pub(super) judged: Judged,
    /// The fingerprints of other findings of the same threads: the ratio is what all of them cost together.
    pub(super) together_with: Vec<String>,
    /// The highest ratio of its threads: speed without the sharing over speed with it.
    pub(super) ratio: f64,
    /// The lower end of its interval.
    pub(super) low: f64,
    /// The upper end.
    pub(super) high: f64,
}

/// Whether a ratio is a cost.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Judged {
    Nothing,
    Slower,
    WithinNoise,
    Costs,
}

/// Threads that were compared with themselves, apart and together on one processor.
#[derive(Serialize, JsonSchema)]
pub(super) struct CoLocated {
    /// Each thread.
    pub(super) threads: Vec<ThreadCost>,
    /// How the cores of the windows apart are related.
    pub(super) distance: CoreDistance,
    /// The processors that were used.
    pub(super) cpus: Vec<u32>,
    /// How long a window is, in nanoseconds.
    pub(super) window_ns: u64,
    /// How many windows there were.
    pub(super) windows: WindowCounts,
    /// Why there were no more.
    pub(super) outcome: Outcome,
    /// Why the machine refused more; null if it did not.
    pub(super) refused: Option<String>,
    /// What placement alone does, by which the ratios are divided; null if it was not measured.
    pub(super) baseline: Option<Baseline>,
    /// Processor time that the threads lost by being put on one processor, in nanoseconds.
    pub(super) lost_ns: u64,
    /// Which kinds of sharing the threads have in common, an estimate; null if no line was seen that they share.
    pub(super) split: Option<Split>,
    /// The part of what the threads share that is this finding, from 0 to 1, by how often samples met there: an estimate;
    /// null where no listed finding joins the threads.
    pub(super) part: Option<f64>,
    /// What else may be the cause where they share no line, the likeliest first.
    pub(super) causes: Vec<Cause>,
}

/// How two cores are related.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CoreDistance {
    SmtSiblings,
    SameCluster,
    SameCache,
    SamePackage,
    OtherPackage,
    Unknown,
}

/// Numbers of windows.
#[derive(Serialize, JsonSchema)]
pub(super) struct WindowCounts {
    /// Planned of each placement.
    pub(super) planned: u32,
    /// Apart, that count.
    pub(super) apart: u32,
    /// Together, that count.
    pub(super) together: u32,
    /// That do not count because a thread did not get its processor.
    pub(super) dropped: u32,
}

/// Why no more windows followed.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Outcome {
    Complete,
    ThreadEnded,
    TimeOver,
    Interrupted,
    Refused,
}

/// The ratios of threads that share nothing, on the same processors.
#[derive(Serialize, JsonSchema)]
pub(super) struct Baseline {
    /// The lowest of several kinds of work.
    pub(super) low: f64,
    /// The highest.
    pub(super) high: f64,
}

/// Parts of the conflicts between threads, from 0 to 1.
#[derive(Serialize, JsonSchema)]
pub(super) struct Split {
    /// On disjoint bytes.
    pub(super) false_sharing: f64,
    /// On the same bytes.
    pub(super) true_sharing: f64,
}

/// What sharing costs one thread: one of `cost` and `no_cost` is not null.
#[derive(Serialize, JsonSchema)]
pub(super) struct ThreadCost {
    /// The thread's name.
    pub(super) name: String,
    /// The kernel's number of it; null: all threads of the group, measured by a word that counts for all.
    pub(super) tid: Option<u32>,
    /// The cost.
    pub(super) cost: Option<Cost>,
    /// Why there is none.
    pub(super) no_cost: Option<NoCost>,
}

/// How much faster a thread runs without its opponents on other cores, per second of its own processor time.
#[derive(Serialize, JsonSchema)]
pub(super) struct Cost {
    /// Speed together over speed apart; 1: no cost.
    pub(super) ratio: f64,
    /// The lower end of its interval.
    pub(super) low: f64,
    /// The upper end.
    pub(super) high: f64,
    /// How far windows apart differ among themselves, as a factor of at least 1.
    pub(super) floor: f64,
    /// Whether it is a cost.
    pub(super) judged: Judged,
    /// By what progress was measured, the most reliable first.
    pub(super) measures: Vec<Measure>,
}

/// One measure of progress and what it says.
#[derive(Serialize, JsonSchema)]
pub(super) struct Measure {
    /// What was looked at.
    pub(super) progress: Progress,
    /// Speed together over speed apart.
    pub(super) ratio: f64,
    /// The lower end of its interval.
    pub(super) low: f64,
    /// The upper end.
    pub(super) high: f64,
    /// How far it moved per second of the thread's processor time, apart; in units of the register or the word.
    pub(super) per_second_apart: f64,
    /// The part of the thread's processor time in the windows that its steady steps are over, from 0 to 1.
    pub(super) coverage: f64,
    /// The median distance of its speed from the median inside a window, as a part of it.
    pub(super) dispersion: f64,
    /// Steps from one look at it to the next.
    pub(super) steps: u64,
    /// Of `steps`, those that went on at about the same speed: the ones that count.
    pub(super) steady: u64,
    /// What the user called it; null if hitm found it.
    pub(super) named: Option<String>,
}

/// What tells how far a thread got, by its kind.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Progress {
    /// A register that moves steadily.
    Register {
        /// Which.
        register: String,
        /// The file name of the binary.
        binary: String,
        /// The instruction's address as the binary states it.
        address: Hex,
        /// Whether it was taken at all instructions of the function.
        throughout: bool,
        /// The function and those it is inlined into, innermost first.
        frames: Vec<Frame>,
    },
    /// A word in memory that only this thread writes.
    Word {
        /// Its field path, or the address.
        name: String,
        /// Where it is in the process.
        address: Hex,
    },
}

/// Why a thread has no cost.
#[derive(Serialize, JsonSchema)]
pub(super) struct NoCost {
    /// The reason and its numbers.
    #[serde(flatten)]
    pub(super) why: WhyNoCost,
    /// The same as a sentence that ends in what to do.
    pub(super) text: String,
}

/// Why a thread has no cost, by its reason.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub(super) enum WhyNoCost {
    /// The threads wait for each other, and being on one core changes that.
    TheyWait {
        /// How one of them was seen to.
        waiting: Waiting,
    },
    /// Nothing was found that tells how far the thread got.
    NoMeasure,
    /// What the user named does not tell how far the thread got.
    NamedUnfit {
        /// What the user called it.
        name: String,
    },
    /// Measures that should agree do not.
    MeasuresDisagree {
        /// The lowest ratio.
        lowest: f64,
        /// The highest.
        highest: f64,
    },
    /// In too many windows a thread did not get its processor.
    TooFewWindows {
        /// So many.
        dropped: u32,
        /// Of so many.
        of: u32,
    },
    /// It ended, or the time was over, too early.
    Ended {
        /// Windows done.
        done: u32,
        /// Windows planned in all.
        planned: u32,
    },
    /// The machine refused.
    Refused,
}

/// How a thread of the group was seen to wait, by its kind.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Waiting {
    /// In loops that only look at what another thread writes.
    Spins {
        /// The name of the thread that does.
        thread: String,
        /// The share of its samples there, from 0 to 1.
        share: f64,
        /// Where: the function and those it is inlined into, innermost first.
        frames: Vec<Frame>,
    },
    /// It sleeps.
    Sleeps {
        /// The name of the thread that does.
        thread: String,
        /// The share of the time apart in which it neither ran nor could, from 0 to 1.
        share: f64,
        /// How often per second it gave its processor up.
        switches_per_second: f64,
    },
    /// It hands the common processor over again and again.
    HandsOver {
        /// The name of the thread that does.
        thread: String,
        /// How often per second of a window together.
        switches_per_second: f64,
    },
}

/// What may slow threads down that share no line.
#[derive(Serialize, JsonSchema)]
pub(super) struct Cause {
    /// What it is, with its evidence.
    #[serde(flatten)]
    pub(super) what: CauseKind,
    /// The same as a sentence that ends in what to do.
    pub(super) text: String,
}

/// Its kind.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum CauseKind {
    /// The hardware prefetcher of one fetches lines of the other.
    Prefetcher {
        /// The thread whose memory is below.
        below: String,
        /// The thread whose memory is above.
        above: String,
        /// Bytes between what the two touch.
        gap_bytes: u64,
        /// Whether one walks towards the other; null if it was not seen where they walk.
        towards: Option<bool>,
    },
    /// Both read or write memory fast.
    Bandwidth {
        /// Of both, at least, as sampled.
        bytes_per_second: f64,
    },
    /// Both use much memory.
    Capacity {
        /// That they use together, estimated from how often samples came back to a line.
        used_bytes: u64,
    },
}
