//! False sharing seen in the binary, before it runs.
//!
//! ```text
//! image, DWARF, code ─ gather ─► facts ─ judge, arrays, types ─► suspicions ─ present ─► findings
//!                                                       policy ─────────────────────────► violations
//! ```
//!
//! [`judge`] has the rules. They need facts only, so that each has a text case.

mod alignment;
mod arrays;
mod blocks;
mod facts;
mod fields;
mod fix;
mod gather;
mod judge;
mod library;
mod names;
mod policy;
mod present;
mod types;

use std::num::NonZeroUsize;
use std::panic::resume_unwind;

use hitm_binary::debug::DebugInfo;
use hitm_binary::image::{DebugLevel, Image, ImageMachine};
use hitm_binary::program::Program;
use hitm_model::{CheckCaveat, CheckReport, CheckTotals, LineSize};

pub use alignment::{AlignmentSuspicion, AllocatedFacts, judge_alignment};
pub use facts::{EitherOr, Facts, Held, ObjectFacts, RootFacts, Use, UseSite};
pub use fields::{Field, User};
pub use judge::{NoFinding, Suspicion};
pub use policy::{Policy, PolicyError};
pub use types::{PointerUse, TypeFacts, TypeHazard, TypeSuspicion, WordFacts, judge_types};

/// What to check by.
#[derive(Debug)]
pub struct CheckOptions<'a> {
    /// The line size.
    pub line: LineSize,
    /// Threads that decode.
    pub threads: NonZeroUsize,
    /// The policy, if there is one.
    pub policy: Option<&'a Policy>,
}

/// Judges the facts: pairs of fields, and arrays.
#[must_use]
pub fn judge(facts: &Facts, either_or: &dyn EitherOr) -> (Vec<Suspicion>, Vec<NoFinding>) {
    let (mut suspicions, mut explained) = judge::judge(facts, either_or);
    let (arrays, others) = arrays::judge(facts);
    suspicions.extend(arrays);
    explained.extend(others);
    (suspicions, explained)
}

/// Checks one binary.
#[must_use]
pub fn check(image: &Image<'_>, path: &str, options: &CheckOptions<'_>) -> CheckReport {
    let mut caveats = Vec::new();
    let (program, debug) = std::thread::scope(|scope| {
        // The code needs no debug information: both are read at once.
        let program = scope.spawn(|| {
            // Of another machine only types and places are known.
            let read = image.machine() == ImageMachine::X86_64;
            read.then(|| Program::read(image, options.threads))
        });
        let debug = DebugInfo::load(image);
        let debug = debug.unwrap_or_else(|error| {
            caveats.push(CheckCaveat::Damaged {
                what: format!("debug information: {error}"),
            });
            DebugInfo::symbols_only(image)
        });
        // The longest part of the work on debug information.
        debug.prepare();
        // Half of an answer would pass for a whole one: a fault of ours ends the check.
        let program = program.join().unwrap_or_else(|fault| resume_unwind(fault));
        (program.unwrap_or_default(), debug)
    });
    caveats.extend(image.damage().map(|what| CheckCaveat::Damaged {
        what: what.to_owned(),
    }));
    if debug.is_damaged() {
        caveats.push(CheckCaveat::Damaged {
            what: "debug information".to_owned(),
        });
    }
    match image.debug_level() {
        DebugLevel::Full => {}
        _ if image.is_split() => caveats.push(CheckCaveat::SplitTypes),
        DebugLevel::Stripped => caveats.extend([CheckCaveat::NoSymbols, CheckCaveat::NoTypes]),
        DebugLevel::Symbols | DebugLevel::LinesOnly => caveats.push(CheckCaveat::NoTypes),
    }
    if image.machine() != ImageMachine::X86_64 {
        caveats.push(CheckCaveat::ForeignInstructions);
    } else if !program.starts_threads() {
        caveats.push(CheckCaveat::StartsNoThreads);
    }
    if program.unknown_starts() > 0 {
        caveats.push(CheckCaveat::UnknownThreads {
            starts: u64::from(program.unknown_starts()),
        });
    }
    let undecoded = program.functions().iter().filter(|it| !it.complete).count();
    if undecoded > 0 {
        caveats.push(CheckCaveat::Undecoded {
            functions: undecoded as u64,
        });
    }
    if program.followed().given_up {
        caveats.push(CheckCaveat::Cut {
            what: "the calls of a thread were followed up to a limit".to_owned(),
        });
    }
    let gathered = gather::gather(image, &debug, &program, options.line);
    let either_or = |first, second| program.is_either_or(image, first, second);
    let (suspicions, explained) = judge(&gathered.facts, &either_or);
    let of_types = judge_types(
        options.line,
        &gathered.facts.roots,
        &gathered.types,
        &gathered.pointer_uses,
    );
    let presenter = present::Presenter::new(image, &debug, &program, &gathered, options.line);
    let loose = judge_alignment(options.line, &gathered.facts.roots, &gathered.allocated);
    let (mut findings, inside) = presenter.findings(suspicions, of_types, &loose);
    let mut explained = presenter.explained(explained);
    explained.extend(inside);
    let violations = match options.policy {
        Some(policy) => {
            policy.allow(&mut findings);
            policy.violations(image, &debug, options.line)
        }
        None => Vec::new(),
    };
    CheckReport {
        binary: path.to_owned(),
        build_id: image.build_id(),
        line_size: options.line,
        policy: options.policy.map(|policy| policy.path().to_owned()),
        baseline: None,
        threads: presenter.threads(),
        findings,
        violations,
        explained,
        caveats,
        totals: CheckTotals {
            functions: program.followed().functions as u64,
            reached: program.followed().by_roots as u64,
            accesses: program.touches().len() as u64,
            objects: gathered.named,
            types: gathered.types.len() as u64,
        },
    }
}
