//! What limits a result: an observation, its likely cause, and what to do about it.

use std::fmt;

use crate::shell_word;

/// A limit that a reader of the result must know. It appears in every output format.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum Caveat {
    /// No sample was taken.
    NoSamples,
    /// Too few samples to decide anything.
    FewSamples {
        /// How many there were.
        samples: u64,
    },
    /// No sample was taken of a program that this user may run but not read.
    ProgramUnreadable {
        /// Its path.
        path: String,
    },
    /// Only one thread was ever seen running.
    OneThread,
    /// The threads seldom ran side by side.
    NotCoRunning {
        /// The share of time with two threads on different processors, from 0 to 1.
        share: f64,
    },
    /// One processor only.
    OneCpu,
    /// Events were dropped.
    Lost {
        /// How many.
        events: u64,
    },
    /// A part of the samples could not be decoded.
    Undecoded {
        /// How many samples.
        samples: u64,
        /// Of how many.
        of: u64,
    },
    /// A binary has no debug information.
    NoDebugInfo {
        /// Its file name.
        binary: String,
        /// Whether it is a Rust program.
        rust: bool,
    },
    /// A binary has lines but neither variables nor types.
    LinesOnly {
        /// Its file name.
        binary: String,
        /// Whether it is a Rust program.
        rust: bool,
    },
    /// A binary has no symbols either.
    Stripped {
        /// Its file name.
        binary: String,
    },
    /// A binary is not the one that was recorded.
    BuildIdDiffers {
        /// Its path.
        path: String,
    },
    /// A binary could not be read.
    BinaryUnreadable {
        /// Its path.
        path: String,
        /// Why.
        why: String,
    },
    /// Parts of a binary were damaged.
    BinaryDamaged {
        /// Its path.
        path: String,
        /// What.
        what: String,
    },
    /// The recording was cut off.
    RecordingTruncated,
    /// Parts of the recording were damaged and left out.
    RecordingDamaged {
        /// Blocks left out.
        blocks: u64,
    },
    /// The recording has events that this version does not know.
    RecordingNewer {
        /// The version of its format.
        version: u32,
        /// The newest version known here.
        known: u32,
        /// Events left out.
        events: u64,
    },
    /// The recorder had to stop before the program did.
    RecordingStopped {
        /// Why.
        why: String,
    },
    /// The sampler is not the best one.
    SamplerFallback {
        /// Why.
        why: String,
    },
    /// The sampler missed a part of the program.
    SamplerShortfall {
        /// What it missed.
        why: String,
    },
    /// The line size is an assumption.
    LineSizeAssumed {
        /// In bytes.
        bytes: u32,
    },
    /// A stack belongs to a thread whose frames could not be read.
    StackUnreadable {
        /// The thread's name.
        thread: String,
        /// Why.
        why: String,
    },
    /// Only plain writes meet plain writes.
    PlainWritesOnly,
    /// The threads mostly took turns on one processor where they met.
    TookTurns {
        /// The share of their meetings in which they were on different processors, from 0 to 1.
        apart: f64,
    },
    /// Processes with address spaces of their own were seen; sharing between processes is not looked for.
    SeveralProcesses {
        /// How many address spaces.
        spaces: u64,
    },
    /// A part of the debug information is in other files (split DWARF).
    SplitDebugInfo {
        /// The binary's file name.
        binary: String,
    },
    /// The code of a binary is for a processor whose instructions hitm does not decode.
    CodeNotDecoded {
        /// The binary's file name.
        binary: String,
        /// The processor.
        machine: String,
    },
    /// The program was not a native 64-bit one that hitm can decode.
    ForeignArchitecture {
        /// Its path.
        path: String,
        /// What it is.
        what: String,
    },
}

impl Caveat {
    /// A word for it that never changes.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NoSamples => "no-samples",
            Self::FewSamples { .. } => "few-samples",
            Self::ProgramUnreadable { .. } => "program-unreadable",
            Self::OneThread => "one-thread",
            Self::NotCoRunning { .. } => "not-co-running",
            Self::OneCpu => "one-cpu",
            Self::Lost { .. } => "lost-events",
            Self::Undecoded { .. } => "undecoded",
            Self::NoDebugInfo { .. } => "no-debug-info",
            Self::LinesOnly { .. } => "lines-only",
            Self::Stripped { .. } => "stripped",
            Self::BuildIdDiffers { .. } => "build-id-differs",
            Self::BinaryUnreadable { .. } => "binary-unreadable",
            Self::BinaryDamaged { .. } => "binary-damaged",
            Self::RecordingTruncated => "recording-truncated",
            Self::RecordingDamaged { .. } => "recording-damaged",
            Self::RecordingNewer { .. } => "recording-newer",
            Self::RecordingStopped { .. } => "recording-stopped",
            Self::SamplerFallback { .. } => "sampler-fallback",
            Self::SamplerShortfall { .. } => "sampler-shortfall",
            Self::LineSizeAssumed { .. } => "line-size-assumed",
            Self::StackUnreadable { .. } => "stack-unreadable",
            Self::PlainWritesOnly => "plain-writes-only",
            Self::TookTurns { .. } => "took-turns",
            Self::SeveralProcesses { .. } => "several-processes",
            Self::SplitDebugInfo { .. } => "split-debug-info",
            Self::CodeNotDecoded { .. } => "code-not-decoded",
            Self::ForeignArchitecture { .. } => "foreign-architecture",
        }
    }

    /// What was seen.
    #[must_use]
    pub fn observation(&self) -> String {
        match self {
            Self::NoSamples => "no sample was taken".into(),
            Self::FewSamples { samples: 1 } => "only one sample was taken".into(),
            Self::FewSamples { samples } => format!("only {samples} samples were taken"),
            Self::ProgramUnreadable { path } => {
                format!("no sample was taken, and {path} may be run but not read")
            }
            Self::OneThread => "only one thread was seen running".into(),
            Self::NotCoRunning { share } => {
                format!(
                    "two threads were seen on different processors in only {:.0} % of the time",
                    share * 100.0
                )
            }
            Self::OneCpu => "the program had one processor".into(),
            Self::Lost { events: 1 } => "one event was dropped while recording".into(),
            Self::Lost { events } => format!("{events} events were dropped while recording"),
            Self::Undecoded { samples, of } => {
                format!("the code of {samples} of {of} samples could not be decoded")
            }
            Self::NoDebugInfo { binary, .. } => format!("{binary} has no debug information"),
            Self::LinesOnly { binary, .. } => {
                format!(
                    "the debug information of {binary} has lines but neither variables nor types"
                )
            }
            Self::Stripped { binary } => {
                format!("{binary} has neither symbols nor debug information")
            }
            Self::BuildIdDiffers { path } => format!("{path} is not the build that was recorded"),
            Self::BinaryUnreadable { path, why } => format!("{path} could not be read: {why}"),
            Self::BinaryDamaged { path, what } => {
                format!("parts of {path} could not be read: {what}")
            }
            Self::RecordingTruncated => "the recording ends in the middle".into(),
            Self::RecordingDamaged { blocks: 1 } => {
                "one block of the recording is damaged and left out".into()
            }
            Self::RecordingDamaged { blocks } => {
                format!("{blocks} blocks of the recording are damaged and left out")
            }
            Self::RecordingNewer {
                version,
                known,
                events,
            } => format!(
                "the recording has format {version}, this hitm knows {known}; {events} events of unknown kinds are left out"
            ),
            Self::RecordingStopped { why } => {
                format!("recording stopped before the program did: {why}")
            }
            Self::SamplerFallback { why } => {
                format!("samples were taken by the preloaded agent: {why}")
            }
            Self::SamplerShortfall { why } => format!("the sampler missed a part: {why}"),
            Self::LineSizeAssumed { bytes } => {
                format!("the line size of {bytes} bytes is an assumption")
            }
            Self::StackUnreadable { thread, why } => {
                format!("the stack of thread {thread} could not be read: {why}")
            }
            Self::PlainWritesOnly => "only plain writes meet plain writes here".into(),
            Self::TookTurns { apart } => format!(
                "the threads were on different processors in only {:.0} % of their meetings",
                apart * 100.0
            ),
            Self::SeveralProcesses { spaces } => format!("{spaces} address spaces were seen"),
            Self::SplitDebugInfo { binary } => {
                format!("a part of the debug information of {binary} is in other files")
            }
            Self::CodeNotDecoded { binary, machine } => {
                format!(
                    "{binary} is for {machine}: its data and types were read, its code was not decoded"
                )
            }
            Self::ForeignArchitecture { path, what } => format!("{path} is {what}"),
        }
    }

    /// The likely cause.
    #[must_use]
    pub fn cause(&self) -> String {
        match self {
            Self::NoSamples => "the program ended at once, slept, or spent its time in the kernel".into(),
            Self::FewSamples { .. } => "the program ran for a short time or mostly slept".into(),
            Self::ProgramUnreadable { .. } => "the kernel lets nobody sample a program that they may not read".into(),
            Self::OneThread => "the program is single-threaded, or its other threads slept".into(),
            Self::NotCoRunning { .. } => {
                "too few processors, other load, or threads that wait for each other: what is shared may cost more than it did here"
                    .into()
            }
            Self::OneCpu => "lines are fought over only between processors: this run shows no cost".into(),
            Self::Lost { .. } => "the recorder was not scheduled in time".into(),
            Self::Undecoded { .. } => "generated code, a deleted file, or a binary that could not be read".into(),
            Self::NoDebugInfo { .. } => "it was built without -g, or stripped of it".into(),
            Self::LinesOnly { .. } => "it was built with line tables only".into(),
            Self::Stripped { .. } => "it was stripped".into(),
            Self::BuildIdDiffers { .. } => "it was rebuilt or replaced since; its names would be wrong and are not used".into(),
            Self::BinaryUnreadable { .. } => "it was moved, deleted, or belongs to another mount namespace or user".into(),
            Self::BinaryDamaged { .. } => "it is damaged or uses what hitm does not know".into(),
            Self::RecordingTruncated => "the recorder was killed, or the file was cut".into(),
            Self::RecordingDamaged { .. } => "the file was overwritten or stored badly".into(),
            Self::RecordingNewer { .. } => "it was written by a newer hitm".into(),
            Self::RecordingStopped { .. } => "the recording could not be written any further".into(),
            Self::SamplerFallback { .. } => {
                "usual in containers; the agent sees only programs that load it (not static ones, not setuid)".into()
            }
            Self::SamplerShortfall { .. } => "the preloaded agent works only in threads that can load and time it".into(),
            Self::LineSizeAssumed { .. } => "the machine does not tell its line size".into(),
            Self::StackUnreadable { .. } => "the thread had ended, or reading another process is not allowed here".into(),
            Self::PlainWritesOnly => "a store buffer can hide the wait, so this may cost nothing on this processor".into(),
            Self::TookTurns { .. } => "they take turns, for a lock or for want of processors, and a line that stays on one processor costs nothing".into(),
            Self::SeveralProcesses { .. } => {
                "the program forked or executed others; lines that processes share through shared memory are not looked for"
                    .into()
            }
            Self::SplitDebugInfo { .. } => "it was built with -gsplit-dwarf; the types in .dwo files are not read".into(),
            Self::CodeNotDecoded { .. } => "hitm decodes the instructions of x86-64 only".into(),
            Self::ForeignArchitecture { .. } => "hitm decodes 64-bit x86 ELF programs only".into(),
        }
    }

    /// What to do, in a few words or a command.
    #[must_use]
    pub fn remedy(&self) -> String {
        let debug = |rust: bool| {
            if rust {
                "set `debug = 2` under `[profile.release]` and build again (1 has lines, but neither variables nor types)"
            } else {
                "build with -g (it changes no code)"
            }
            .to_owned()
        };
        match self {
            Self::NoSamples | Self::FewSamples { .. } => {
                "run it for longer or give it more work; `hitm run --rate 5000` samples more often".into()
            }
            Self::ProgramUnreadable { path } => {
                format!("make it readable (`chmod +r {}`) or record as a user who may read it", shell_word(path))
            }
            Self::OneThread => "run a part of the program that uses its threads".into(),
            Self::NotCoRunning { .. } => {
                "run it again on an idle machine; `hitm doctor` tells whether two cores run side by side".into()
            }
            Self::OneCpu => "run it with two or more processors (taskset, cpuset, container limits)".into(),
            Self::Lost { .. } => "lower the rate: `hitm run --rate 500`".into(),
            Self::Undecoded { .. } => "see the other caveats for which binaries are missing".into(),
            Self::NoDebugInfo { rust, .. } | Self::LinesOnly { rust, .. } => debug(*rust),
            Self::Stripped { .. } => "keep the symbols, or put the separate debug file where its build-id says".into(),
            Self::BuildIdDiffers { .. } => "record again, or put the recorded build back".into(),
            Self::BinaryUnreadable { .. } => "run `hitm report` where the file can be read under the same path".into(),
            Self::BinaryDamaged { .. } => "build it again; if it persists, report it with the file".into(),
            Self::RecordingTruncated | Self::RecordingDamaged { .. } => {
                "what was readable was used; record again for all of it".into()
            }
            Self::RecordingNewer { .. } => "use a hitm at least as new as the recorder".into(),
            Self::RecordingStopped { .. } => "make room or give another file: `hitm run -o FILE`".into(),
            Self::SamplerFallback { .. } => {
                "`hitm doctor` tells what refuses perf_event_open and how to allow it".into()
            }
            Self::SamplerShortfall { .. } => "`hitm run --sampler perf` where the machine allows it (`hitm doctor`)".into(),
            Self::LineSizeAssumed { .. } => "give it: `hitm report --line-size N FILE`".into(),
            Self::StackUnreadable { .. } => "run hitm as the same user, with ptrace allowed (`hitm doctor`)".into(),
            Self::PlainWritesOnly => {
                "measure before repairing: `hitm prove`".into()
            }
            Self::TookTurns { .. } => "see what they wait for; then run it on an idle machine with enough processors".into(),
            Self::SeveralProcesses { .. } => "attach to one process: `hitm attach PID`".into(),
            Self::SplitDebugInfo { .. } => "build it without -gsplit-dwarf".into(),
            Self::CodeNotDecoded { .. } => "build it for x86-64 to have its code looked at too".into(),
            Self::ForeignArchitecture { .. } => "build it for x86-64 Linux".into(),
        }
    }
}

/// Observation, cause and remedy in one sentence.
impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ({}); {}",
            self.observation(),
            self.cause(),
            self.remedy()
        )
    }
}
