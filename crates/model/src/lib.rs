//! The words of hitm as plain data.
//!
//! Every other crate speaks in these types: addresses that cannot be mixed up, accesses, the events of a
//! recording, and findings with their evidence. There is no I/O, no clock and no decision here.

#![forbid(unsafe_code)]

mod access;
mod address;
mod caveat;
mod check;
mod cost;
mod diff;
mod finding;
mod layout;
mod line;
mod machine;
mod recording;
mod registers;
mod report;
mod shell;
mod source;
mod thread;
mod time;
mod windows;

pub use access::{AccessKind, AccessKinds};
pub use address::{Avma, AvmaRange, Bias, Svma, SvmaRange};
pub use caveat::Caveat;
pub use check::{
    CheckCaveat, CheckReport, CheckTotals, Explained, Fix, Party, StaticFinding, StaticRule,
    ThreadRoot, Toucher, Violation,
};
pub use cost::{
    Cause, CoLocated, Cost, Interval, Measure, NamedProgress, NoCost, Progress, Split, ThreadCost,
    Waiting, WindowCounts,
};
pub use diff::{
    BuildDiff, CodeDiff, DiffVerdict, FunctionChange, MemberMove, MovedObject, NewNeighbour,
    PairChange, Shift, ShiftCause, SymbolChange, TypeChange, TypesDiff,
};
pub use finding::{
    Advice, AdviceKind, Confidence, Evidence, Finding, LineView, Object, ObjectKind, Participant,
    Sampled, Severity, Site, ThreadGroup, Verdict,
};
pub use layout::{
    ArrayView, DataObject, Focus, LayoutReport, LineMap, MapLine, MapPart, MapSection, RowRole,
    TypePlacement, TypeRow, TypeView, VariantView,
};
pub use line::{ByteRange, LineAddress, LineSize, LineSizeError};
pub use machine::Machine;
pub use recording::{
    BuildId, Event, ExitStatus, Mapping, MappingKind, RunInfo, RunMode, Sample, SamplerInfo,
    SamplerKind, StackFrame, StopReason,
};
pub use registers::{Register, Registers};
pub use report::{Communication, Report, Totals};
pub use shell::{shell_command, shell_word};
pub use source::{SourceFrame, SourceLine};
pub use thread::{Pid, SpaceId, ThreadId, Tid};
pub use time::Nanos;
pub use windows::{
    Baseline, CoreDistance, Group, GroupEnd, GroupOutcome, NamedCode, Placement, PlannedGroup,
    PlannedThread, Reading, Window, WindowThread, Word,
};
