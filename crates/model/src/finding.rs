//! What hitm says: findings, their parts and their evidence.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    AccessKinds, Avma, ByteRange, Caveat, CoLocated, LineAddress, Nanos, SourceFrame, SourceLine,
    Svma, Tid,
};

/// What kind of sharing a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Same line, disjoint bytes: the layout can be repaired.
    FalseSharing,
    /// Both on one line: repairing the layout removes a part.
    Mixed,
    /// The same bytes: no layout helps.
    TrueSharing,
    /// A lock beside what it guards: usually meant.
    LockAndData,
    /// The evidence does not decide.
    Unproven,
}

impl Verdict {
    /// The word for it, as in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FalseSharing => "false-sharing",
            Self::Mixed => "mixed",
            Self::TrueSharing => "true-sharing",
            Self::LockAndData => "lock-and-data",
            Self::Unproven => "unproven",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// One object, or a few that share lines, and who fights over it.
#[derive(Clone, PartialEq, Debug)]
pub struct Finding {
    /// The same for the same objects and verdict in every run.
    pub fingerprint: String,
    /// What kind of sharing it is.
    pub verdict: Verdict,
    /// Whether it is true sharing where one thread writes what others read: communication.
    pub one_way: bool,
    /// The objects on the lines that participants touch, in address order.
    pub objects: Vec<Object>,
    /// The lines, hottest first.
    pub lines: Vec<LineView>,
    /// Who touches what, in address order of the hottest line.
    pub participants: Vec<Participant>,
    /// What it costs at most.
    pub severity: Severity,
    /// How sure the verdict is.
    pub confidence: Confidence,
    /// On what it rests.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: Advice,
    /// The command to type next.
    pub next: String,
    /// What limits this finding.
    pub caveats: Vec<Caveat>,
}

/// Where an object lives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectKind {
    /// A global or static variable.
    Global,
    /// Memory from an allocator or `mmap`.
    Heap,
    /// A variable in a stack frame.
    Stack,
    /// A thread-local variable.
    ThreadLocal,
    /// Mapped, but not known as what.
    Unknown,
}

/// A variable or a block of memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Where it lives.
    pub kind: ObjectKind,
    /// Its name: `server`, `(heap) Shard`, `evens in main()`, or an address where nothing is known.
    pub name: String,
    /// Its type, if known.
    pub type_name: Option<String>,
    /// The binary that defines it (a file name), if one does.
    pub binary: Option<String>,
    /// The section it is in, if it is in one.
    pub section: Option<String>,
    /// Where it starts, in the process.
    pub address: Avma,
    /// Its size in bytes, if known.
    pub size: Option<u64>,
    /// Where it is declared, if known.
    pub declared: Option<SourceLine>,
    /// How its name or type was inferred, where it was not simply read.
    pub inferred: Option<String>,
}

/// One line of a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineView {
    /// Its first byte, in the process.
    pub address: LineAddress,
    /// Samples on it.
    pub samples: u64,
}

/// Threads that touch one range of bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Participant {
    /// Who.
    pub threads: ThreadGroup,
    /// On which line of [`Finding::lines`] (an index).
    pub line: usize,
    /// Which bytes of it.
    pub range: ByteRange,
    /// How.
    pub kinds: AccessKinds,
    /// What these bytes are: `server.stat_io_reads_processed[1]`, or an object's name and an offset.
    pub field_path: String,
    /// The type of the field, if known.
    pub field_type: Option<String>,
    /// The object they belong to: an index into [`Finding::objects`].
    pub object: Option<usize>,
    /// Samples of these threads whose code touches these bytes.
    pub samples: u64,
    /// All samples of these threads.
    pub thread_samples: u64,
    /// Where in the code, most samples first.
    pub sites: Vec<Site>,
}

impl Participant {
    /// The share of its threads' samples, from 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.thread_samples == 0 {
            0.0
        } else {
            self.samples as f64 / self.thread_samples as f64
        }
    }
}

/// Threads taken together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadGroup {
    /// Their name; a run of digits that differs among them is shown as `*`.
    pub name: String,
    /// The kernel's numbers of them, in the order of birth.
    pub tids: Vec<Tid>,
}

/// A place in the code that touches the line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// The file name of the binary.
    pub binary: String,
    /// The instruction's address in the file.
    pub address: Svma,
    /// What the instruction does.
    pub kinds: AccessKinds,
    /// Samples in which it was seen.
    pub samples: u64,
    /// Its function and the inlined ones around it, innermost first; empty where nothing is known.
    pub frames: Vec<SourceFrame>,
}

/// What a finding costs at most.
///
/// # Caveats
/// It is the share of time in which the clock found a participant in code that touches the line, counted no higher than
/// the time that its opponents spend there. Removing the sharing seldom gains more than that and may gain nothing. It can
/// gain more where the processor charges the wait for a delayed store to a later fence or locked instruction elsewhere.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Severity {
    /// Samples of the participants at the line, of each no more than its opponents have there.
    pub samples: u64,
    /// All samples of the participants' threads.
    pub thread_samples: u64,
    /// The largest share of any one thread's samples, from 0 to 1: a rare victim counts by its own time.
    pub worst_thread: f64,
}

impl Severity {
    /// The share of the participants' time, from 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        if self.thread_samples == 0 {
            0.0
        } else {
            self.samples as f64 / self.thread_samples as f64
        }
    }
}

/// How sure a verdict is, which is not how much it costs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// A hint.
    Low,
    /// Likely.
    Medium,
    /// Proven as far as this kind of evidence proves.
    High,
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

/// What a finding rests on.
#[derive(Clone, PartialEq, Debug)]
pub enum Evidence {
    /// The clock, the registers and the decoded instructions.
    Sampled(Sampled),
    /// The running program, its threads put on one core for short windows.
    CoLocated(CoLocated),
}

/// Evidence from clock samples, with its denominators.
#[derive(Clone, PartialEq, Debug)]
pub struct Sampled {
    /// Samples whose code touches the lines.
    pub samples: u64,
    /// Of these, samples with an opposing access of another thread both before and after them within the window:
    /// the ones that prove that the threads met.
    pub met: u64,
    /// Of `met`, those whose opponent touched disjoint bytes.
    pub met_disjoint: u64,
    /// Of `met`, those whose opponent touched the same bytes.
    pub met_overlapping: u64,
    /// How far apart in time two accesses may be to count as meeting.
    pub window: Nanos,
    /// Of `met`, those whose opponent was seen on another processor: only these cost anything.
    pub met_on_other_cpu: u64,
    /// Whether all participants only write, and none with a locked operation: then nobody waits for the line, and the
    /// store buffer may hide all of the cost.
    pub plain_writes_only: bool,
}

/// What to do about a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Advice {
    /// Its kind.
    pub kind: AdviceKind,
    /// One line of text.
    pub text: String,
    /// Bytes the repair adds per instance, where it can be said.
    pub added_bytes: Option<u64>,
}

/// The kinds of advice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceKind {
    /// Give each element of a per-thread array a line of its own.
    PadElements,
    /// Put the written object on a line of its own.
    IsolateWritten,
    /// Split a structure by who writes its fields.
    SplitFields,
    /// Give each thread a copy and add up on reading.
    PerThreadCopies,
    /// Leave it: the sharing is meant.
    LeaveAsIs,
}
