//! From the model to the document. Nothing is computed here but shares.

use hitm_model as model;
use hitm_model::{AccessKinds, ExitStatus, LineSize, RunMode, SourceLine};

use super::JSON_VERSION;
use super::convert_cost::{co_located, measured};
use super::document::{
    Access, Advice, AdviceKind, Bytes, Caveat, Child, Communication, Confidence, Document,
    Evidence, Finding, Frame, Hex, Line, Machine, Mode, Object, ObjectKind, Participant, Run,
    Sampler, SamplerKind, SchemaName, Severity, Site, Source, Threads, Totals, Verdict,
};
use crate::measured::Joined;

impl From<&model::Report> for Document {
    fn from(report: &model::Report) -> Self {
        Self {
            schema: SchemaName::HitmReport,
            version: JSON_VERSION,
            hitm: env!("CARGO_PKG_VERSION"),
            machine: report.machine.as_ref().map(Machine::from),
            run: report.run.as_ref().map(Run::from),
            sampler: report.sampler.as_ref().map(Sampler::from),
            child: report.child.map(Child::from),
            line_size_bytes: report.line_size.bytes(),
            totals: Totals::from(&report.totals),
            findings: (0..report.findings.len())
                .map(|at| finding(report, at))
                .collect(),
            findings_below_min_share: report.below_min_share,
            communication: all(&report.communication),
            compared: report
                .compared
                .iter()
                .map(|group| co_located(group, Joined::ByNothing, report.line_size))
                .collect(),
            caveats: all(&report.caveats),
        }
    }
}

pub(super) fn all<'a, From, To: std::convert::From<&'a From>>(from: &'a [From]) -> Vec<To> {
    from.iter().map(To::from).collect()
}

/// JSON has no other numbers.
pub(super) fn finite(share: f64) -> f64 {
    if share.is_finite() { share } else { 0.0 }
}

impl From<&model::Machine> for Machine {
    fn from(machine: &model::Machine) -> Self {
        Self {
            architecture: machine.architecture.clone(),
            processor: machine.processor.clone(),
            kernel: machine.kernel.clone(),
            cpus: machine.cpus,
            line_size_bytes: machine.line_size.map(model::LineSize::bytes),
            virtual_machine: machine.virtual_machine,
        }
    }
}

impl From<&model::RunInfo> for Run {
    fn from(run: &model::RunInfo) -> Self {
        Self {
            mode: match run.mode {
                RunMode::Run => Mode::Run,
                RunMode::Attach => Mode::Attach,
            },
            command: run.command.clone(),
            pid: run.pid.0,
            started_unix_ms: run.started_unix.0 / 1_000_000,
            recorder: run.recorder.clone(),
        }
    }
}

impl From<&model::SamplerInfo> for Sampler {
    fn from(sampler: &model::SamplerInfo) -> Self {
        let share = |cost: model::Nanos| cost.0 as f64 / sampler.period.0 as f64;
        Self {
            kind: match sampler.kind {
                model::SamplerKind::Perf => SamplerKind::Perf,
                model::SamplerKind::Preload => SamplerKind::Preload,
            },
            period_ns: sampler.period.0,
            cost_ns: sampler.cost.map(|cost| cost.0),
            cost_share: sampler.cost.map(share).filter(|share| share.is_finite()),
            rate_given: sampler.rate_given,
            fallback: sampler.fallback.clone(),
            shortfall: sampler.shortfall.clone(),
        }
    }
}

impl From<ExitStatus> for Child {
    fn from(status: ExitStatus) -> Self {
        let (code, signal) = match status {
            ExitStatus::Code(code) => (Some(code), None),
            ExitStatus::Signal(signal) => (None, Some(signal)),
        };
        Self { code, signal }
    }
}

impl From<&model::Totals> for Totals {
    fn from(totals: &model::Totals) -> Self {
        Self {
            samples: totals.samples,
            lost_events: totals.lost,
            undecoded_samples: totals.undecoded,
            operands: totals.operands,
            unresolved_operands: totals.unresolved,
            unmapped_operands: totals.unmapped,
            threads: totals.threads,
            sampled_threads: totals.sampled_threads,
            address_spaces: totals.spaces,
            duration_ns: totals.duration.0,
            co_running_share: totals.co_running.filter(|share| share.is_finite()),
        }
    }
}

impl From<&model::Communication> for Communication {
    fn from(communication: &model::Communication) -> Self {
        Self {
            field_path: communication.field_path.clone(),
            worst_thread_share: finite(communication.worst_thread),
        }
    }
}

/// The finding of `report` with the index `at`.
fn finding(report: &model::Report, at: usize) -> Finding {
    let finding = &report.findings[at];
    Finding {
        fingerprint: finding.fingerprint.clone(),
        verdict: match finding.verdict {
            model::Verdict::FalseSharing => Verdict::FalseSharing,
            model::Verdict::Mixed => Verdict::Mixed,
            model::Verdict::TrueSharing => Verdict::TrueSharing,
            model::Verdict::LockAndData => Verdict::LockAndData,
            model::Verdict::Unproven => Verdict::Unproven,
        },
        one_way: finding.one_way,
        objects: all(&finding.objects),
        lines: all(&finding.lines),
        participants: all(&finding.participants),
        severity: Severity {
            samples: finding.severity.samples,
            thread_samples: finding.severity.thread_samples,
            share: finding.severity.share(),
            worst_thread_share: finite(finding.severity.worst_thread),
        },
        confidence: match finding.confidence {
            model::Confidence::Low => Confidence::Low,
            model::Confidence::Medium => Confidence::Medium,
            model::Confidence::High => Confidence::High,
        },
        measured: measured(&report.findings, at),
        evidence: finding
            .evidence
            .iter()
            .map(|of| evidence(of, report.line_size))
            .collect(),
        advice: Advice::from(&finding.advice),
        next: finding.next.clone(),
        caveats: all(&finding.caveats),
    }
}

impl From<&model::Object> for Object {
    fn from(object: &model::Object) -> Self {
        Self {
            kind: match object.kind {
                model::ObjectKind::Global => ObjectKind::Global,
                model::ObjectKind::Heap => ObjectKind::Heap,
                model::ObjectKind::Stack => ObjectKind::Stack,
                model::ObjectKind::ThreadLocal => ObjectKind::ThreadLocal,
                model::ObjectKind::Unknown => ObjectKind::Unknown,
            },
            name: object.name.clone(),
            type_name: object.type_name.clone(),
            binary: object.binary.clone(),
            section: object.section.clone(),
            address: Hex(object.address.to_string()),
            size_bytes: object.size,
            declared: object.declared.as_ref().map(Source::from),
            inferred: object.inferred.clone(),
        }
    }
}

impl From<&model::LineView> for Line {
    fn from(line: &model::LineView) -> Self {
        Self {
            address: Hex(line.address.to_string()),
            samples: line.samples,
        }
    }
}

impl From<&model::Participant> for Participant {
    fn from(participant: &model::Participant) -> Self {
        Self {
            threads: Threads {
                name: participant.threads.name.clone(),
                tids: participant.threads.tids.iter().map(|tid| tid.0).collect(),
            },
            line: participant.line,
            bytes: Bytes {
                start: participant.range.start,
                end: participant.range.end,
            },
            access: Access::from(participant.kinds),
            field_path: participant.field_path.clone(),
            field_type: participant.field_type.clone(),
            object: participant.object,
            samples: participant.samples,
            thread_samples: participant.thread_samples,
            share: participant.share(),
            sites: all(&participant.sites),
        }
    }
}

impl From<AccessKinds> for Access {
    fn from(kinds: AccessKinds) -> Self {
        Self {
            read: kinds.reads(),
            write: kinds.writes(),
            atomic: kinds.atomic(),
        }
    }
}

impl From<&model::Site> for Site {
    fn from(site: &model::Site) -> Self {
        Self {
            binary: site.binary.clone(),
            address: Hex(site.address.to_string()),
            access: Access::from(site.kinds),
            samples: site.samples,
            frames: all(&site.frames),
        }
    }
}

impl From<&model::SourceFrame> for Frame {
    fn from(frame: &model::SourceFrame) -> Self {
        Self {
            function: frame.function.clone(),
            source: frame.line.as_ref().map(Source::from),
        }
    }
}

impl From<&SourceLine> for Source {
    fn from(line: &SourceLine) -> Self {
        Self {
            file: line.file.clone(),
            line: Some(line.line).filter(|&line| line != 0),
        }
    }
}

fn evidence(evidence: &model::Evidence, line_size: LineSize) -> Evidence {
    match evidence {
        model::Evidence::Sampled(sampled) => Evidence::Sampled {
            samples: sampled.samples,
            met: sampled.met,
            met_disjoint: sampled.met_disjoint,
            met_overlapping: sampled.met_overlapping,
            met_on_other_cpu: sampled.met_on_other_cpu,
            window_ns: sampled.window.0,
            plain_writes_only: sampled.plain_writes_only,
        },
        model::Evidence::CoLocated(group) => {
            Evidence::CoLocated(co_located(group, Joined::ByFinding, line_size))
        }
    }
}

impl From<&model::Advice> for Advice {
    fn from(advice: &model::Advice) -> Self {
        Self {
            kind: match advice.kind {
                model::AdviceKind::PadElements => AdviceKind::PadElements,
                model::AdviceKind::IsolateWritten => AdviceKind::IsolateWritten,
                model::AdviceKind::SplitFields => AdviceKind::SplitFields,
                model::AdviceKind::PerThreadCopies => AdviceKind::PerThreadCopies,
                model::AdviceKind::LeaveAsIs => AdviceKind::LeaveAsIs,
            },
            text: advice.text.clone(),
            added_bytes: advice.added_bytes,
        }
    }
}

impl From<&model::Caveat> for Caveat {
    fn from(caveat: &model::Caveat) -> Self {
        Self {
            code: caveat.code().into(),
            observation: caveat.observation(),
            cause: caveat.cause(),
            remedy: caveat.remedy(),
        }
    }
}

impl From<model::Svma> for Hex {
    fn from(address: model::Svma) -> Self {
        Self(address.to_string())
    }
}
