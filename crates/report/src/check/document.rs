//! The document of `hitm check --json`.

use hitm_model::{
    AccessKinds, CheckReport, Confidence, Party, SourceLine, StaticFinding, StaticRule, Toucher,
};
use schemars::JsonSchema;
use serde::Serialize;

/// What `hitm check --json` writes.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hitm check")]
pub(super) struct Document {
    /// Always `hitm-check`.
    format: &'static str,
    /// Grows when a value changes its meaning or goes.
    version: u32,
    /// The version of hitm that wrote it.
    hitm: &'static str,
    /// One for each binary that was given.
    binaries: Vec<Binary>,
}

#[derive(Serialize, JsonSchema)]
struct Binary {
    /// As it was given.
    path: String,
    /// The build-id, in hexadecimal.
    build_id: Option<String>,
    /// The line size that it was judged by, in bytes.
    line_size: u32,
    /// The policy that it was checked by, as its path; `null` without one.
    policy: Option<String>,
    /// The baseline that it was compared with, as its path; `null` without one.
    baseline: Option<String>,
    /// Where threads begin.
    threads: Vec<Thread>,
    /// Preconditions of false sharing, the most certain first.
    findings: Vec<Finding>,
    /// Findings of less confidence than asked for, which are left out.
    hidden: u64,
    /// What the policy forbids.
    violations: Vec<Violation>,
    /// What looks like a finding and is none.
    explained: Vec<Explained>,
    /// What limits the answer.
    caveats: Vec<Caveat>,
    totals: Totals,
}

#[derive(Serialize, JsonSchema)]
struct Totals {
    /// Functions that were decoded.
    functions: u64,
    /// Of these, functions reached from `main` or the start of a thread.
    reached: u64,
    /// Accesses of fixed places by code that may run beside other threads.
    accesses: u64,
    /// Objects with a name in writable data.
    objects: u64,
    /// Types that hold atomics or locks.
    types: u64,
}

#[derive(Serialize, JsonSchema)]
struct Thread {
    name: String,
    /// Whether several threads may begin there.
    many: bool,
    /// The functions that start it.
    started_in: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Finding {
    /// The same for the same finding in another build.
    fingerprint: String,
    rule: Rule,
    /// Always `unproven`: nothing was measured.
    verdict: Verdict,
    confidence: Level,
    /// The line's address in the file, in hexadecimal, where it is a fixed one.
    line: Option<String>,
    why: String,
    parties: Vec<PartyDocument>,
    fix: Fix,
    /// The reason that the policy gives for leaving it.
    allowed: Option<String>,
    /// Whether it is in the baseline.
    known: bool,
    /// The command that would measure it.
    measure_with: String,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Unproven,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Level {
    Low,
    Medium,
    High,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Rule {
    GlobalsShareLine,
    FieldsShareLine,
    ReadBesideWritten,
    ElementsShareLine,
    PaddingWithoutAlignment,
    AlignmentNotGiven,
}

#[derive(Serialize, JsonSchema)]
struct PartyDocument {
    name: String,
    type_name: Option<String>,
    /// In the file, in hexadecimal.
    address: Option<String>,
    section: Option<String>,
    /// In the line; of a member of a type, in the type.
    offset: u64,
    size: u64,
    declared: Option<Place>,
    touched_by: Vec<TouchedBy>,
}

#[derive(Serialize, JsonSchema)]
struct TouchedBy {
    /// `null` where it is not known who calls the code.
    thread: Option<String>,
    function: String,
    reads: bool,
    writes: bool,
    /// Whether a locked operation is among them.
    atomic: bool,
    /// Whether in a loop.
    in_loop: bool,
    /// The address of an instruction that does it, in hexadecimal.
    instruction: String,
    source: Option<Place>,
}

#[derive(Serialize, JsonSchema)]
struct Place {
    file: String,
    line: u32,
}

#[derive(Serialize, JsonSchema)]
struct Fix {
    text: String,
    /// Bytes that it adds to one instance.
    added_bytes: u64,
    /// How many instances there are; `null` where the binary does not tell.
    instances: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Violation {
    fingerprint: String,
    /// `isolate`, `apart`, `together` or `type`.
    table: String,
    /// The line of the policy.
    policy_line: u32,
    what: String,
    declared: Option<Place>,
    known: bool,
}

#[derive(Serialize, JsonSchema)]
struct Explained {
    objects: Vec<String>,
    why: String,
}

#[derive(Serialize, JsonSchema)]
struct Caveat {
    /// A short name.
    caveat: String,
    text: String,
}

impl Document {
    pub(super) fn new(reports: &[CheckReport], least: Confidence) -> Self {
        Self {
            format: "hitm-check",
            version: super::CHECK_JSON_VERSION,
            hitm: env!("CARGO_PKG_VERSION"),
            binaries: reports.iter().map(|report| binary(report, least)).collect(),
        }
    }
}

fn binary(report: &CheckReport, least: Confidence) -> Binary {
    let shown = |finding: &&StaticFinding| finding.confidence >= least;
    let hidden = report.findings.iter().filter(|it| !shown(it)).count();
    let totals = report.totals;
    Binary {
        path: report.binary.clone(),
        build_id: report.build_id.as_ref().map(ToString::to_string),
        line_size: report.line_size.bytes(),
        policy: report.policy.clone(),
        baseline: report.baseline.clone(),
        threads: report
            .threads
            .iter()
            .map(|thread| Thread {
                name: thread.name.clone(),
                many: thread.many,
                started_in: thread.started_in.clone(),
            })
            .collect(),
        findings: report
            .findings
            .iter()
            .filter(shown)
            .map(|it| finding(it, report))
            .collect(),
        hidden: hidden as u64,
        violations: report
            .violations
            .iter()
            .map(|it| Violation {
                fingerprint: it.fingerprint.clone(),
                table: it.table.to_owned(),
                policy_line: it.policy_line,
                what: it.what.clone(),
                declared: it.declared.as_ref().map(place),
                known: it.known,
            })
            .collect(),
        explained: report
            .explained
            .iter()
            .map(|it| Explained {
                objects: it.objects.clone(),
                why: it.why.clone(),
            })
            .collect(),
        caveats: report
            .caveats
            .iter()
            .map(|it| Caveat {
                caveat: it.name().to_owned(),
                text: it.text(),
            })
            .collect(),
        totals: Totals {
            functions: totals.functions,
            reached: totals.reached,
            accesses: totals.accesses,
            objects: totals.objects,
            types: totals.types,
        },
    }
}

fn finding(finding: &StaticFinding, report: &CheckReport) -> Finding {
    Finding {
        fingerprint: finding.fingerprint.clone(),
        rule: match finding.rule {
            StaticRule::GlobalsShareLine => Rule::GlobalsShareLine,
            StaticRule::FieldsShareLine => Rule::FieldsShareLine,
            StaticRule::ReadBesideWritten => Rule::ReadBesideWritten,
            StaticRule::ElementsShareLine => Rule::ElementsShareLine,
            StaticRule::PaddingWithoutAlignment => Rule::PaddingWithoutAlignment,
            StaticRule::AlignmentNotGiven => Rule::AlignmentNotGiven,
        },
        verdict: Verdict::Unproven,
        confidence: match finding.confidence {
            Confidence::Low => Level::Low,
            Confidence::Medium => Level::Medium,
            Confidence::High => Level::High,
        },
        line: finding.line.map(|line| line.to_string()),
        why: finding.why.clone(),
        parties: finding.parties.iter().map(party).collect(),
        fix: Fix {
            text: finding.fix.text.clone(),
            added_bytes: finding.fix.added_bytes,
            instances: finding.fix.instances,
        },
        allowed: finding.allowed.clone(),
        known: finding.known,
        measure_with: super::command(report),
    }
}

fn party(party: &Party) -> PartyDocument {
    PartyDocument {
        name: party.name.clone(),
        type_name: party.type_name.clone(),
        address: party.address.map(|address| address.to_string()),
        section: party.section.clone(),
        offset: party.offset,
        size: party.size,
        declared: party.declared.as_ref().map(place),
        touched_by: party.touched_by.iter().map(touched_by).collect(),
    }
}

fn touched_by(toucher: &Toucher) -> TouchedBy {
    let kinds: AccessKinds = toucher.kinds;
    TouchedBy {
        thread: toucher.thread.clone(),
        function: toucher.function.clone(),
        reads: kinds.reads(),
        writes: kinds.writes(),
        atomic: kinds.atomic(),
        in_loop: toucher.hot,
        instruction: toucher.instruction.to_string(),
        source: toucher.source.as_ref().map(place),
    }
}

fn place(line: &SourceLine) -> Place {
    Place {
        file: line.file.clone(),
        line: line.line,
    }
}
