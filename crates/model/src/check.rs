//! What the layout and the code of a binary say before it runs.
//!
//! A static finding is a precondition: these share a line, and this code touches them. Whether threads meet there, and
//! what that costs, only a run tells.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{AccessKinds, BuildId, Confidence, LineSize, SourceLine, Svma};

/// Everything that a check of one binary found.
#[derive(Clone, PartialEq, Debug)]
pub struct CheckReport {
    /// Its path, as given.
    pub binary: String,
    /// Its build-id.
    pub build_id: Option<BuildId>,
    /// The line size it was judged by.
    pub line_size: LineSize,
    /// The policy that it was checked by, as its path.
    pub policy: Option<String>,
    /// The baseline that it was compared with, as its path.
    pub baseline: Option<String>,
    /// Where threads begin, the main thread first.
    pub threads: Vec<ThreadRoot>,
    /// Most certain first; with those that are not shown by default.
    pub findings: Vec<StaticFinding>,
    /// What the policy forbids.
    pub violations: Vec<Violation>,
    /// What looks like a finding and is none.
    pub explained: Vec<Explained>,
    /// What limits the answer.
    pub caveats: Vec<CheckCaveat>,
    /// What was looked at.
    pub totals: CheckTotals,
}

/// What was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CheckTotals {
    /// Functions that were decoded.
    pub functions: u64,
    /// Of these, functions that are reached from `main` or the start of a thread.
    pub reached: u64,
    /// Accesses of fixed places by code that may run beside other threads.
    pub accesses: u64,
    /// Objects with a name in the data segments.
    pub objects: u64,
    /// Types that hold atomics or locks.
    pub types: u64,
}

/// Code that a thread begins with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadRoot {
    /// A name for it: `main`, or that of its function.
    pub name: String,
    /// Whether several threads may begin with it.
    pub many: bool,
    /// The functions that start it.
    pub started_in: Vec<String>,
}

/// Why something is suspected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StaticRule {
    /// Globals on one line that different threads write.
    GlobalsShareLine,
    /// Parts of one object on one line that different threads write.
    FieldsShareLine,
    /// Something that is read all the time on a line that another thread writes.
    ReadBesideWritten,
    /// Several elements of a per-thread array, or an array of atomics or locks, on one line.
    ElementsShareLine,
    /// Padding that does not keep neighbours away.
    PaddingWithoutAlignment,
    /// A type that asks for whole lines, allocated by a call that promises less.
    AlignmentNotGiven,
}

impl StaticRule {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::GlobalsShareLine,
        Self::FieldsShareLine,
        Self::ReadBesideWritten,
        Self::ElementsShareLine,
        Self::PaddingWithoutAlignment,
        Self::AlignmentNotGiven,
    ];

    /// Its name in reports and policies.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GlobalsShareLine => "globals-share-line",
            Self::FieldsShareLine => "fields-share-line",
            Self::ReadBesideWritten => "read-beside-written",
            Self::ElementsShareLine => "elements-share-line",
            Self::PaddingWithoutAlignment => "padding-without-alignment",
            Self::AlignmentNotGiven => "alignment-not-given",
        }
    }

    /// What it means, in one sentence.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::GlobalsShareLine => {
                "Different threads write different globals on one cache line."
            }
            Self::FieldsShareLine => {
                "Different threads write different parts of one object on one cache line."
            }
            Self::ReadBesideWritten => {
                "Something that is read in loops is on a cache line that another thread writes."
            }
            Self::ElementsShareLine => {
                "Elements of an array that belong to different threads share a cache line."
            }
            Self::PaddingWithoutAlignment => {
                "A type is padded to whole cache lines but may begin anywhere."
            }
            Self::AlignmentNotGiven => {
                "A type asks for whole cache lines, and what allocates it promises less."
            }
        }
    }
}

impl fmt::Display for StaticRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A precondition of false sharing.
#[derive(Clone, PartialEq, Debug)]
pub struct StaticFinding {
    /// The same for the same finding in another build: it depends on names, not on addresses.
    pub fingerprint: String,
    /// Why.
    pub rule: StaticRule,
    /// How sure it is that threads meet there.
    pub confidence: Confidence,
    /// What shares a line.
    pub parties: Vec<Party>,
    /// The line in the file, where it is a fixed one.
    pub line: Option<Svma>,
    /// Why it is suspected, in a sentence.
    pub why: String,
    /// What to do.
    pub fix: Fix,
    /// The reason that the policy gives for leaving it.
    pub allowed: Option<String>,
    /// Whether it is in the baseline.
    pub known: bool,
}

/// Something on the line.
#[derive(Clone, PartialEq, Debug)]
pub struct Party {
    /// An object, or a part of one: `server.hits`.
    pub name: String,
    /// Its type, if known.
    pub type_name: Option<String>,
    /// Its address in the file, where it has a fixed one.
    pub address: Option<Svma>,
    /// Its section.
    pub section: Option<String>,
    /// Its offset in the line; of a member of a type, its offset in the type.
    pub offset: u64,
    /// Bytes; of an array's element, those of one element.
    pub size: u64,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
    /// Who touches it.
    pub touched_by: Vec<Toucher>,
}

/// Code that touches a party.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Toucher {
    /// The thread's name; `None` where it is not known who calls the code.
    pub thread: Option<String>,
    /// The function.
    pub function: String,
    /// How.
    pub kinds: AccessKinds,
    /// Whether in a loop.
    pub hot: bool,
    /// An instruction that does it.
    pub instruction: Svma,
    /// Its place in the source.
    pub source: Option<SourceLine>,
}

/// What to do about a finding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    /// In words.
    pub text: String,
    /// Bytes it adds to one instance.
    pub added_bytes: u64,
    /// How many instances there are, where the binary tells.
    pub instances: Option<u64>,
}

/// What a policy forbids.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The same for the same violation in another build.
    pub fingerprint: String,
    /// The table of the policy: `isolate`, `apart`, `together`, `type`.
    pub table: &'static str,
    /// The line of the policy.
    pub policy_line: u32,
    /// What is wrong.
    pub what: String,
    /// Where the object is declared.
    pub declared: Option<SourceLine>,
    /// Whether it is in the baseline.
    pub known: bool,
}

/// Something that is no finding, and why not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// What.
    pub objects: Vec<String>,
    /// Why it is none.
    pub why: String,
}

/// What limits a static answer.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CheckCaveat {
    /// There is no debug information with types.
    NoTypes,
    /// Its debug information is in other files.
    SplitTypes,
    /// There are no symbols.
    NoSymbols,
    /// Nothing in the binary starts a thread.
    StartsNoThreads,
    /// Some starts of threads have a function that could not be found.
    UnknownThreads {
        /// How many.
        starts: u64,
    },
    /// Some functions have bytes that are no instructions.
    Undecoded {
        /// How many.
        functions: u64,
    },
    /// A part of the file could not be read.
    Damaged {
        /// Which.
        what: String,
    },
    /// The instructions are those of another machine.
    ForeignInstructions,
    /// A list was cut to bound the time and memory of the check.
    Cut {
        /// Which.
        what: String,
    },
}

impl CheckCaveat {
    /// A short name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoTypes => "no-types",
            Self::SplitTypes => "split-types",
            Self::NoSymbols => "no-symbols",
            Self::StartsNoThreads => "starts-no-threads",
            Self::UnknownThreads { .. } => "unknown-threads",
            Self::Undecoded { .. } => "undecoded",
            Self::Damaged { .. } => "damaged",
            Self::ForeignInstructions => "foreign-instructions",
            Self::Cut { .. } => "cut",
        }
    }

    /// What limits the answer, and what helps.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::NoTypes => "no debug information with types: structures on the heap are not seen, and fields have no \
                              names; compile with -g (C, C++) or debug = 2 (Cargo)"
                .to_owned(),
            Self::SplitTypes => "debug information is in other files, which are not read: structures on the heap are not \
                                 seen, and fields have no names; build it without -gsplit-dwarf (Cargo: \
                                 split-debuginfo = \"off\")"
                .to_owned(),
            Self::NoSymbols => {
                "no symbols but those that it exports: everything else is named by section and offset; check the binary \
                 before it is stripped"
                    .to_owned()
            }
            Self::StartsNoThreads => "nothing in this binary starts a thread: who runs its code is not known, and \
                                      confidence is low; check the program that does"
                .to_owned(),
            Self::UnknownThreads { starts } => format!(
                "{starts} starts of threads have a function that could not be found; what only those run counts as \
                 run by unknown threads"
            ),
            Self::Undecoded { functions } => {
                format!("{functions} functions have bytes that are no instructions; they were read up to there")
            }
            Self::Damaged { what } => format!("damaged: {what}; what could be read was used"),
            Self::ForeignInstructions => "reading the instructions of this processor is not supported, only those of x86-64: who \
                                          touches what is not known; types and the policy were checked"
                .to_owned(),
            Self::Cut { what } => format!("{what}; what is behind that was not looked at"),
        }
    }
}
