//! The types of the JSON document. Their documentation becomes the schema's descriptions.

use schemars::JsonSchema;
use serde::Serialize;

use super::JSON_VERSION;
use super::cost::{CoLocated, Measured};

/// What hitm found in one recording.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hitm-report")]
pub(super) struct Document {
    /// What kind of document this is.
    pub(super) schema: SchemaName,
    /// The version of the document's format.
    #[schemars(extend("const" = JSON_VERSION))]
    pub(super) version: u32,
    /// The version of the hitm that made this report.
    pub(super) hitm: &'static str,
    /// The machine it was recorded on; null if the recording does not say.
    pub(super) machine: Option<Machine>,
    /// What was run; null if the recording does not say.
    pub(super) run: Option<Run>,
    /// How it was sampled; null if the recording does not say.
    pub(super) sampler: Option<Sampler>,
    /// How the program ended; null if hitm did not start it or did not see it end.
    pub(super) child: Option<Child>,
    /// The line size that the verdicts assume, in bytes.
    pub(super) line_size_bytes: u32,
    /// The denominators of the whole run.
    pub(super) totals: Totals,
    /// Findings, by severity: those that a repair helps first.
    pub(super) findings: Vec<Finding>,
    /// How many findings were below the least share and are not listed.
    pub(super) findings_below_min_share: usize,
    /// Communication that is not listed as findings: one thread writes what others read.
    pub(super) communication: Vec<Communication>,
    /// Threads that were compared apart and together though no listed finding joins them.
    pub(super) compared: Vec<CoLocated>,
    /// What limits all of it.
    pub(super) caveats: Vec<Caveat>,
}

/// What one thread writes and others read.
#[derive(Serialize, JsonSchema)]
pub(super) struct Communication {
    /// The field that is written.
    pub(super) field_path: String,
    /// The largest share of any one thread's time that it takes at most, from 0 to 1.
    pub(super) worst_thread_share: f64,
}

/// The name of this kind of document.
#[derive(Serialize, JsonSchema)]
pub(super) enum SchemaName {
    #[serde(rename = "hitm-report")]
    HitmReport,
}

/// The machine of a recording.
#[derive(Serialize, JsonSchema)]
pub(super) struct Machine {
    /// As `uname -m` says.
    pub(super) architecture: String,
    /// The processor's name.
    pub(super) processor: String,
    /// The kernel's release.
    pub(super) kernel: String,
    /// Processors that the recorder could have used.
    pub(super) cpus: u32,
    /// What the machine says its line size is, in bytes; null if it does not.
    pub(super) line_size_bytes: Option<u32>,
    /// Whether it runs under a hypervisor.
    pub(super) virtual_machine: bool,
}

/// What was run.
#[derive(Serialize, JsonSchema)]
pub(super) struct Run {
    /// Whether hitm started it.
    pub(super) mode: Mode,
    /// The command and its arguments.
    pub(super) command: Vec<String>,
    /// The process.
    pub(super) pid: u32,
    /// The start, in milliseconds since 1970.
    pub(super) started_unix_ms: u64,
    /// The version of the hitm that recorded.
    pub(super) recorder: String,
}

/// Whether hitm started the program.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    Run,
    Attach,
}

/// How samples were taken.
#[derive(Serialize, JsonSchema)]
pub(super) struct Sampler {
    /// By whom.
    pub(super) kind: SamplerKind,
    /// Time between two samples of one running thread, in nanoseconds.
    pub(super) period_ns: u64,
    /// What one sample costs the sampled thread, in nanoseconds; null if it was not measured.
    pub(super) cost_ns: Option<u64>,
    /// `cost_ns` / `period_ns`: the share of the threads' time that sampling takes.
    pub(super) cost_share: Option<f64>,
    /// Whether the user gave the rate.
    pub(super) rate_given: bool,
    /// Why a better sampler was not used; null if this is the best one.
    pub(super) fallback: Option<String>,
    /// What the sampler missed; null if nothing is known to be missed.
    pub(super) shortfall: Option<String>,
}

/// Who took the samples.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SamplerKind {
    Perf,
    Preload,
}

/// How the program ended: one of the two is not null.
#[derive(Serialize, JsonSchema)]
pub(super) struct Child {
    /// The exit code.
    pub(super) code: Option<i32>,
    /// The signal that killed it.
    pub(super) signal: Option<i32>,
}

/// The denominators.
#[derive(Serialize, JsonSchema)]
pub(super) struct Totals {
    /// Samples taken in user mode.
    pub(super) samples: u64,
    /// Events that were dropped while recording.
    pub(super) lost_events: u64,
    /// Of `samples`, those whose code could not be read or decoded.
    pub(super) undecoded_samples: u64,
    /// Memory operands seen in sampled code.
    pub(super) operands: u64,
    /// Of `operands`, those whose address could not be computed from the registers.
    pub(super) unresolved_operands: u64,
    /// Of `operands`, those whose computed address was outside every mapping.
    pub(super) unmapped_operands: u64,
    /// Threads seen.
    pub(super) threads: u64,
    /// Of `threads`, those with a sample.
    pub(super) sampled_threads: u64,
    /// Address spaces seen.
    pub(super) address_spaces: u64,
    /// From the first to the last event, in nanoseconds.
    pub(super) duration_ns: u64,
    /// The share of the time with samples of two or more threads on different processors, from 0 to 1; null with fewer
    /// than two sampled threads.
    pub(super) co_running_share: Option<f64>,
}

/// An object, or a few that share lines, and who fights over it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Finding {
    /// The same for the same objects and verdict in every run.
    pub(super) fingerprint: String,
    /// What kind of sharing it is.
    pub(super) verdict: Verdict,
    /// Whether it is true sharing where one thread writes what others read.
    pub(super) one_way: bool,
    /// The objects on the lines that participants touch, in address order.
    pub(super) objects: Vec<Object>,
    /// The lines, hottest first.
    pub(super) lines: Vec<Line>,
    /// Who touches what.
    pub(super) participants: Vec<Participant>,
    /// What it costs at most.
    pub(super) severity: Severity,
    /// What it costs as measured; null if it was not measured, or not of a thread that may be the one that pays.
    pub(super) measured: Option<Measured>,
    /// How sure the verdict is.
    pub(super) confidence: Confidence,
    /// On what it rests.
    pub(super) evidence: Vec<Evidence>,
    /// What to do.
    pub(super) advice: Advice,
    /// The command to type next.
    pub(super) next: String,
    /// What limits this finding.
    pub(super) caveats: Vec<Caveat>,
}

/// What kind of sharing a finding is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    FalseSharing,
    Mixed,
    TrueSharing,
    LockAndData,
    Unproven,
}

/// A variable or a block of memory.
#[derive(Serialize, JsonSchema)]
pub(super) struct Object {
    /// Where it lives.
    pub(super) kind: ObjectKind,
    /// Its name, or an address where nothing is known.
    pub(super) name: String,
    /// Its type; null if unknown.
    #[serde(rename = "type")]
    pub(super) type_name: Option<String>,
    /// The file name of the binary that defines it; null if none does.
    pub(super) binary: Option<String>,
    /// Its section; null if it is in none.
    pub(super) section: Option<String>,
    /// Where it starts in the process.
    pub(super) address: Hex,
    /// Its size in bytes; null if unknown.
    pub(super) size_bytes: Option<u64>,
    /// Where it is declared; null if unknown.
    pub(super) declared: Option<Source>,
    /// How its name or type was inferred; null where it was read.
    pub(super) inferred: Option<String>,
}

/// Where an object lives.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ObjectKind {
    Global,
    Heap,
    Stack,
    ThreadLocal,
    Unknown,
}

/// One line of a finding.
#[derive(Serialize, JsonSchema)]
pub(super) struct Line {
    /// Its first byte in the process.
    pub(super) address: Hex,
    /// Samples whose code touches it.
    pub(super) samples: u64,
}

/// Threads that touch one range of bytes.
#[derive(Serialize, JsonSchema)]
pub(super) struct Participant {
    /// Who.
    pub(super) threads: Threads,
    /// On which line: an index into `lines`.
    pub(super) line: usize,
    /// Which bytes of it.
    pub(super) bytes: Bytes,
    /// How.
    pub(super) access: Access,
    /// What these bytes are.
    pub(super) field_path: String,
    /// The type of the field; null if unknown.
    pub(super) field_type: Option<String>,
    /// The object they belong to, an index into `objects`; null if unknown.
    pub(super) object: Option<usize>,
    /// Samples of these threads whose code touches these bytes.
    pub(super) samples: u64,
    /// All samples of these threads.
    pub(super) thread_samples: u64,
    /// `samples` / `thread_samples`.
    pub(super) share: f64,
    /// Where in the code, most samples first.
    pub(super) sites: Vec<Site>,
}

/// Threads taken together.
#[derive(Serialize, JsonSchema)]
pub(super) struct Threads {
    /// Their name; a run of digits that differs among them is `*`.
    pub(super) name: String,
    /// The kernel's numbers of them, in the order of birth.
    pub(super) tids: Vec<u32>,
}

/// Offsets from the line's first byte.
#[derive(Serialize, JsonSchema)]
pub(super) struct Bytes {
    /// The first byte inside.
    pub(super) start: u32,
    /// The first byte behind.
    pub(super) end: u32,
}

/// How memory is accessed.
#[derive(Serialize, JsonSchema)]
pub(super) struct Access {
    /// Whether it is loaded.
    pub(super) read: bool,
    /// Whether it is stored to.
    pub(super) write: bool,
    /// Whether an atomic read-modify-write is among the accesses.
    pub(super) atomic: bool,
}

/// A place in the code.
#[derive(Serialize, JsonSchema)]
pub(super) struct Site {
    /// The file name of the binary.
    pub(super) binary: String,
    /// The instruction's address as the binary states it.
    pub(super) address: Hex,
    /// What the instruction does.
    pub(super) access: Access,
    /// Samples in which it was seen.
    pub(super) samples: u64,
    /// Its function and those it is inlined into, innermost first; empty where nothing is known.
    pub(super) frames: Vec<Frame>,
}

/// A function at a place in the source.
#[derive(Serialize, JsonSchema)]
pub(super) struct Frame {
    /// The demangled name.
    pub(super) function: String,
    /// The place; null if unknown.
    pub(super) source: Option<Source>,
}

/// A line of a source file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Source {
    /// The file as the debug information names it.
    pub(super) file: String,
    /// From 1; null if only the file is known.
    pub(super) line: Option<u32>,
}

/// What a finding costs at most: no repair gains more, and it may gain nothing.
#[derive(Serialize, JsonSchema)]
pub(super) struct Severity {
    /// Samples of all participants at the sites.
    pub(super) samples: u64,
    /// All samples of the participants' threads.
    pub(super) thread_samples: u64,
    /// `samples` / `thread_samples`, from 0 to 1.
    pub(super) share: f64,
    /// The largest share of any one thread's samples, from 0 to 1.
    pub(super) worst_thread_share: f64,
}

/// How sure a verdict is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Confidence {
    Low,
    Medium,
    High,
}

/// What a finding rests on, by its origin.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "origin", rename_all = "kebab-case")]
pub(super) enum Evidence {
    /// The clock, the registers and the decoded instructions.
    Sampled {
        /// Samples whose code touches the lines.
        samples: u64,
        /// Of `samples`, those with an opposing access of another thread both before and after them within the window.
        met: u64,
        /// Of `met`, those whose opponent touched disjoint bytes.
        met_disjoint: u64,
        /// Of `met`, those whose opponent touched the same bytes.
        met_overlapping: u64,
        /// Of `met`, those whose opponent was on another processor.
        met_on_other_cpu: u64,
        /// How far apart two accesses may be to count as meeting, in nanoseconds.
        window_ns: u64,
        /// Whether only plain writes meet, whose cost a store buffer may hide.
        plain_writes_only: bool,
    },
    /// The running program, its threads put on one core for short windows.
    CoLocated(CoLocated),
}

/// What to do about a finding.
#[derive(Serialize, JsonSchema)]
pub(super) struct Advice {
    /// Its kind.
    pub(super) kind: AdviceKind,
    /// One line of text.
    pub(super) text: String,
    /// Bytes the repair adds per instance; null where it cannot be said.
    pub(super) added_bytes: Option<u64>,
}

/// The kinds of advice.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AdviceKind {
    PadElements,
    IsolateWritten,
    SplitFields,
    PerThreadCopies,
    LeaveAsIs,
}

/// A limit of the result.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Caveat {
    /// A word for it that never changes.
    pub(super) code: String,
    /// What was seen.
    pub(super) observation: String,
    /// The likely cause.
    pub(super) cause: String,
    /// What to do.
    pub(super) remedy: String,
}

/// An address, as a string because JSON's numbers do not hold 64 bits everywhere.
#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Hex(#[schemars(regex(pattern = "^0x[0-9a-f]{1,16}$"))] pub(super) String);
