//! What every sampler delivers, before threads and address spaces get their numbers.
//!
//! The perf sampler and the preload agent both speak these; `session` turns them into [`hitm_model::Event`]s. So
//! nothing behind this point knows where a sample came from.

use hitm_model::{Avma, Mapping, Nanos, Pid, Registers, Tid};

/// One event of a sampler. Times are `CLOCK_MONOTONIC`.
#[derive(Clone, PartialEq, Debug)]
pub enum RawEvent {
    /// The clock struck while a thread ran in user mode.
    Sample(RawSample),
    /// A thread or process was born.
    Born {
        /// Its process; differs from `parent_pid` for a fork.
        pid: Pid,
        /// Its number.
        tid: Tid,
        /// The process that made it.
        parent_pid: Pid,
        /// The thread that made it, if the sampler knows it.
        parent_tid: Option<Tid>,
        /// When.
        at: Nanos,
    },
    /// A thread ended.
    Ended {
        /// Its process.
        pid: Pid,
        /// Its number.
        tid: Tid,
        /// When.
        at: Nanos,
    },
    /// A thread has a new name, or its process executes a new program.
    Named {
        /// Its process.
        pid: Pid,
        /// Its number.
        tid: Tid,
        /// The name (`comm`).
        name: String,
        /// Whether it is because of `execve`: the address space is a new one.
        exec: bool,
        /// When.
        at: Nanos,
    },
    /// Something was mapped. A build-id is not filled in yet.
    Mapped {
        /// Into which process.
        pid: Pid,
        /// What.
        mapping: Mapping,
        /// When.
        at: Nanos,
    },
    /// A thread's `fs` base became known.
    ThreadPointer {
        /// Its process.
        pid: Pid,
        /// Its number.
        tid: Tid,
        /// The base of its `fs` segment.
        fs_base: Avma,
    },
    /// Events were dropped.
    Lost {
        /// How many.
        events: u64,
        /// When it was noticed.
        at: Nanos,
    },
}

/// One sample, by the kernel's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawSample {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// When.
    pub at: Nanos,
    /// On which processor.
    pub cpu: u32,
    /// The user-mode registers.
    pub registers: Registers,
}
