//! What a recording is asked for, and what came of it.

use std::{ffi::OsString, sync::atomic::AtomicBool, time::Duration};

use hitm_model::{Avma, ExitStatus, Nanos, Pid, SamplerInfo, StopReason};

use crate::prove::{Phase, Proved};

/// How often to sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// As often as the budget allows on this machine.
    Auto,
    /// So many times per second of a thread's running time.
    Hz(u32),
}

/// Who is to take the samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SamplerChoice {
    /// The kernel if it lets us, else the agent.
    Auto,
    /// The kernel.
    Perf,
    /// The preloaded agent.
    Preload,
}

/// What to run, and how to record it.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions<'a> {
    /// The command and its arguments.
    pub command: &'a [OsString],
    /// The environment it gets; `PATH` in it says where commands are.
    pub environment: &'a [(OsString, OsString)],
    /// How often to sample.
    pub rate: Rate,
    /// Who samples.
    pub sampler: SamplerChoice,
    /// End the program after so long.
    pub duration: Option<Duration>,
    /// Whether the program's standard output goes to our standard error.
    pub child_stdout_to_stderr: bool,
    /// Set: end the program and the recording.
    pub interrupt: &'a AtomicBool,
}

/// What to attach to, and how to record it.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions<'a> {
    /// The process.
    pub pid: Pid,
    /// How often to sample.
    pub rate: Rate,
    /// End the recording after so long.
    pub duration: Option<Duration>,
    /// Set: end the recording.
    pub interrupt: &'a AtomicBool,
}

/// How far a recording is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Progress {
    /// Since the program began or was attached to.
    pub elapsed: Nanos,
    /// Samples so far.
    pub samples: u64,
    /// The line that threads met on most often so far.
    pub hottest: Option<HottestLine>,
    /// What it is doing.
    pub phase: Phase,
    /// Why there is nothing to prove yet, once the planner has said so.
    pub nothing_yet: Option<String>,
}

/// The line that threads met on most often so far. An estimate: the report looks closer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HottestLine {
    /// Its address.
    pub line: Avma,
    /// What is there: a file name and offset, or the kind of memory.
    pub place: String,
    /// How often threads were seen to meet there.
    pub meetings: u64,
}

/// What came of a recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The process.
    pub pid: Pid,
    /// How the program ended, if hitm started it.
    pub child: Option<ExitStatus>,
    /// How it was sampled.
    pub sampler: SamplerInfo,
    /// Samples taken.
    pub samples: u64,
    /// Events dropped by the kernel or the agent.
    pub lost: u64,
    /// How long it was recorded.
    pub duration: Nanos,
    /// Why the recording ended.
    pub reason: StopReason,
    /// What came of proving.
    pub proved: Proved,
}
