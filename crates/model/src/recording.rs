//! The events of a recording, in the order they were seen.
//!
//! `hitm-recording` writes and reads them; docs/recording.md describes the bytes. New variants go to the end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Avma, AvmaRange, Group, GroupEnd, Machine, Nanos, Pid, Registers, SpaceId, ThreadId, Tid,
    Window,
};

/// One event of a recording.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The machine; first in every recording.
    Machine(Machine),
    /// What was run or attached to.
    Run(RunInfo),
    /// How it is sampled.
    Sampler(SamplerInfo),
    /// An address space begins: a process was found, was forked, or executed a new program.
    SpaceBorn {
        /// The new space.
        space: SpaceId,
        /// Its process.
        pid: Pid,
        /// The space it was forked from: its mappings are the parent's until told otherwise.
        parent: Option<SpaceId>,
        /// When.
        at: Nanos,
    },
    /// Something is mapped from now on, over whatever was there.
    Mapping {
        /// The space it is mapped in.
        space: SpaceId,
        /// When.
        at: Nanos,
        /// What.
        mapping: Mapping,
    },
    /// A thread exists from now on.
    ThreadBorn {
        /// Its number in this recording.
        thread: ThreadId,
        /// The space it runs in.
        space: SpaceId,
        /// The kernel's number of it.
        tid: Tid,
        /// Its name (`comm`).
        name: String,
        /// When it was born, or first seen.
        at: Nanos,
    },
    /// A thread changed its name.
    ThreadNamed {
        /// Which.
        thread: ThreadId,
        /// To what.
        name: String,
        /// When.
        at: Nanos,
    },
    /// A thread ended.
    ThreadEnded {
        /// Which.
        thread: ThreadId,
        /// When.
        at: Nanos,
    },
    /// The clock struck while a thread ran in user mode.
    Sample(Sample),
    /// Where a thread's thread-control block is: what `fs:0` is for it.
    ThreadPointer {
        /// Which thread.
        thread: ThreadId,
        /// The base of its `fs` segment.
        fs_base: Avma,
    },
    /// The mapping that holds a thread's stack.
    Stack {
        /// Whose.
        thread: ThreadId,
        /// The mapping's range when it was looked up.
        range: AvmaRange,
    },
    /// A thread's call stack, read because other threads met on a line of it.
    Frames {
        /// Whose stack.
        thread: ThreadId,
        /// When it was read.
        at: Nanos,
        /// Innermost first.
        frames: Vec<StackFrame>,
    },
    /// The kernel or the agent dropped events because the recorder was late.
    Lost {
        /// When it was noticed.
        at: Nanos,
        /// How many events.
        events: u64,
    },
    /// A process that hitm started has ended.
    ChildEnded {
        /// Which.
        pid: Pid,
        /// How.
        status: ExitStatus,
    },
    /// The recorder is done; a recording without it was cut off.
    Ended {
        /// When.
        at: Nanos,
        /// Why it ended.
        reason: StopReason,
    },
    /// Threads are put on processors of our choice from now on, now and then.
    Group(Group),
    /// A window is over in which they were.
    Window(Window),
    /// They are where they were before, and no more windows follow.
    GroupEnded(GroupEnd),
}

/// What was recorded, and how it was started.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunInfo {
    /// Started by us or attached to.
    pub mode: RunMode,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The process.
    pub pid: Pid,
    /// The start, on the wall clock: nanoseconds since 1970.
    pub started_unix: Nanos,
    /// The start, on the clock of the samples.
    pub started: Nanos,
    /// The version of hitm that recorded.
    pub recorder: String,
}

/// Whether hitm started the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum RunMode {
    /// `hitm run`.
    Run,
    /// `hitm attach`.
    Attach,
}

/// How samples are taken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SamplerInfo {
    /// By whom.
    pub kind: SamplerKind,
    /// Time between two samples of one running thread.
    pub period: Nanos,
    /// What one sample costs the sampled thread, measured on this machine before the run.
    pub cost: Option<Nanos>,
    /// Whether the user gave the rate.
    pub rate_given: bool,
    /// Why a better sampler was not used.
    pub fallback: Option<String>,
    /// What the sampler missed, known at the end: the recording then says it again with this.
    pub shortfall: Option<String>,
}

/// Who takes the samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SamplerKind {
    /// `perf_event_open` with the software event `cpu-clock`.
    Perf,
    /// The preloaded agent: a timer on each thread's processor time and a real-time signal (docs/preload.md).
    Preload,
}

/// A stretch of an address space and what is mapped there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mapping {
    /// Where.
    pub range: AvmaRange,
    /// What.
    pub kind: MappingKind,
    /// Whether instructions may be fetched from it.
    pub executable: bool,
    /// Whether it may be written to.
    pub writable: bool,
}

impl Mapping {
    /// The path and build-id of the file that is mapped, if it is one.
    #[must_use]
    pub fn file(&self) -> Option<(&str, Option<&BuildId>)> {
        match &self.kind {
            MappingKind::File { path, build_id, .. } => Some((path, build_id.as_ref())),
            _ => None,
        }
    }
}

/// What is mapped.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum MappingKind {
    /// A file.
    File {
        /// Its path in the process's mount namespace.
        path: String,
        /// The offset in the file of the range's start, in bytes.
        offset: u64,
        /// The build-id found in it when it was recorded, or what stands for one.
        build_id: Option<BuildId>,
    },
    /// The `brk` heap.
    Heap,
    /// The main thread's stack.
    MainStack,
    /// Anonymous memory: allocators' arenas, thread stacks, `.bss` behind its file's pages.
    Anonymous,
    /// `[vdso]` and other things of the kernel's.
    Special(String),
}

/// The note that names one build of a binary.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BuildId(pub Vec<u8>);

impl fmt::Display for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildId({self})")
    }
}

/// One sample: the exact register state of a thread at an instruction boundary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Whose.
    pub thread: ThreadId,
    /// When.
    pub at: Nanos,
    /// The processor it ran on.
    pub cpu: u32,
    /// Its registers.
    pub registers: Registers,
}

/// One frame of an unwound stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StackFrame {
    /// The instruction in this frame (for a caller: the return address).
    pub ip: Avma,
    /// The canonical frame address: the stack pointer before the call that made this frame.
    pub cfa: Avma,
    /// The frame pointer register in this frame.
    pub fp: Avma,
    /// Whether `ip` is a return address rather than the next instruction.
    pub is_return: bool,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal killed it.
    Signal(i32),
}

/// Why a recording ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum StopReason {
    /// The program ended.
    ProgramEnded,
    /// The time asked for is over.
    TimeOver,
    /// The user interrupted.
    Interrupted,
    /// Nothing more could be written, for this reason.
    WriteFailed(String),
}
