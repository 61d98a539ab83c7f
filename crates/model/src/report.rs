//! A whole analysis: what was looked at, what was found, what limits it.

use crate::{
    Caveat, CoLocated, ExitStatus, Finding, LineSize, Machine, Nanos, RunInfo, SamplerInfo,
};

/// The outcome of analysing one recording.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The machine it was recorded on.
    pub machine: Option<Machine>,
    /// What was run.
    pub run: Option<RunInfo>,
    /// How it was sampled.
    pub sampler: Option<SamplerInfo>,
    /// How the child ended, if hitm started one and saw it end.
    pub child: Option<ExitStatus>,
    /// The line size the verdicts assume.
    pub line_size: LineSize,
    /// The denominators.
    pub totals: Totals,
    /// Findings at or above the least share, by severity: those that a repair helps first, then true sharing.
    pub findings: Vec<Finding>,
    /// How many findings were below the least share and are not listed.
    pub below_min_share: usize,
    /// Communication that is not listed, the largest share first.
    pub communication: Vec<Communication>,
    /// Groups of threads that were compared apart and together though no listed finding joins them.
    pub compared: Vec<CoLocated>,
    /// What limits all of it.
    pub caveats: Vec<Caveat>,
}

/// A field that one thread writes and others read.
#[derive(Clone, PartialEq, Debug)]
pub struct Communication {
    /// The field that is written.
    pub field_path: String,
    /// The largest share of any one thread's time, from 0 to 1, that this takes at most.
    pub worst_thread: f64,
}

/// The denominators of a report.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// Samples taken in user mode.
    pub samples: u64,
    /// Events the kernel or the agent dropped.
    pub lost: u64,
    /// Samples whose code could not be read or decoded at all (no file, generated code).
    pub undecoded: u64,
    /// Memory operands seen in sampled code.
    pub operands: u64,
    /// Of these, operands whose address could not be computed from the registers.
    pub unresolved: u64,
    /// Of these, operands whose computed address was outside every mapping.
    pub unmapped: u64,
    /// Threads seen.
    pub threads: u64,
    /// Threads with at least one sample.
    pub sampled_threads: u64,
    /// Threads that were seen to write to memory other than their own stack.
    pub writing_threads: u64,
    /// Address spaces seen.
    pub spaces: u64,
    /// From the start of the recording to its end, or between the events that there are.
    pub duration: Nanos,
    /// Share of the time with samples of two or more threads on different processors, from 0 to 1; `None` with fewer
    /// than two sampled threads.
    pub co_running: Option<f64>,
}
