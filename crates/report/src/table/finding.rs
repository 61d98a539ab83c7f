//! One finding, from its verdict down to what limits it: with all its parts where a repair may help, closer together
//! where none does.

use std::io;

use hitm_model::{
    Advice, AdviceKind, Evidence, Finding, Object, ObjectKind, Report, Sampled, Verdict,
};

use super::participants::{Letters, participants};
use super::picture::picture;
use super::{headline, label, measured, repair_helps, verdict_style, worst_thread};
use crate::measured::groups;
use crate::page::{BOLD, DIM, Page, Span, TYPE_THIS, WARN, plain, span};
use crate::words::{count, percent, verdict};

/// Where the text of a labelled paragraph begins.
pub(super) const TEXT: usize = 15;

/// How many objects are described without `all`.
const OBJECTS: usize = 4;

/// The finding of `report` with the index `at`.
pub(super) fn finding(
    page: &mut Page<'_>,
    report: &Report,
    at: usize,
    all: bool,
) -> io::Result<()> {
    let finding = &report.findings[at];
    let in_full = repair_helps(finding.verdict);
    title(page, &report.findings, at)?;
    objects(page, finding, all)?;
    if let Some(why) = why(finding.verdict) {
        let name = if in_full { "but" } else { "why not pad" };
        page.paragraph(&label(name), TEXT, &[plain(why)])?;
    }
    advice(page, &finding.advice)?;
    // Without a repair nobody needs to see where on the line things lie, and the parts stand closer.
    let gap = |page: &mut Page<'_>| if in_full { page.blank() } else { Ok(()) };
    gap(page)?;
    let letters = Letters::new(finding, all);
    if in_full || all {
        picture(page, finding, &letters, report.line_size, all)?;
    }
    gap(page)?;
    participants(page, finding, &letters, all)?;
    gap(page)?;
    measured::of_finding(page, &report.findings, at, all)?;
    cost(page, finding)?;
    confidence(page, finding)?;
    caveats(page, finding)?;
    next(page, finding)
}

/// `1. false sharing: COUNTS, costs 5.4× [5.1, 5.8]`, or what it costs at most.
fn title(page: &mut Page<'_>, findings: &[Finding], at: usize) -> io::Result<()> {
    let finding = &findings[at];
    let style = verdict_style(finding.verdict);
    let cost = measured::in_short(findings, at).unwrap_or_else(|| sampled_cost(finding));
    page.paragraph(
        &[span(BOLD, format!("{}. ", at + 1))],
        3,
        &[
            span(style, verdict(finding.verdict)),
            plain(": "),
            span(BOLD, headline(finding)),
            plain(format!(", {cost}")),
        ],
    )
}

/// `at most 53 % of the participants' time, 97 % of reader's`.
fn sampled_cost(finding: &Finding) -> String {
    let mut cost = format!(
        "at most {} of the participants' time",
        percent(finding.severity.share())
    );
    if let Some(worst) = worst_thread(finding) {
        cost.push_str(&format!(", {worst}"));
    }
    cost
}

fn objects(page: &mut Page<'_>, finding: &Finding, all: bool) -> io::Result<()> {
    let n = finding.objects.len();
    let shown = if all { n } else { n.min(OBJECTS) };
    for object in &finding.objects[..shown] {
        page.paragraph(&[plain("   ")], 5, &object_line(object))?;
    }
    if shown < n {
        page.row(&[span(DIM, format!("   … {} more objects", n - shown))])?;
    }
    Ok(())
}

/// `COUNTS: [AtomicU64; 8], 64 bytes at 0x5040 in .bss of prog, declared at main.rs:3`.
fn object_line(object: &Object) -> Vec<Span> {
    let mut text = String::new();
    if let Some(name) = &object.type_name {
        text.push_str(&format!(": {name}"));
    }
    match object.size {
        Some(1) => text.push_str(", 1 byte"),
        Some(size) => text.push_str(&format!(", {} bytes", count(size))),
        None => {}
    }
    text.push_str(&format!(" at {}", object.address));
    text.push_str(match object.kind {
        ObjectKind::Global => "",
        ObjectKind::Heap => " on the heap",
        ObjectKind::Stack => " on a stack",
        ObjectKind::ThreadLocal => ", thread-local",
        ObjectKind::Unknown => ", of unknown kind",
    });
    match (&object.section, &object.binary) {
        (Some(section), Some(binary)) => text.push_str(&format!(" in {section} of {binary}")),
        (None, Some(binary)) => text.push_str(&format!(" of {binary}")),
        (Some(section), None) => text.push_str(&format!(" in {section}")),
        (None, None) => {}
    }
    if let Some(declared) = &object.declared {
        text.push_str(&format!(", declared at {declared}"));
    }
    if let Some(inferred) = &object.inferred {
        text.push_str(&format!(" ({inferred})"));
    }
    vec![span(BOLD, &object.name), plain(text)]
}

fn cost(page: &mut Page<'_>, finding: &Finding) -> io::Result<()> {
    let severity = &finding.severity;
    let as_sampled = match groups(finding).next() {
        Some(_) => " as sampled",
        None => "",
    };
    let mut text = format!(
        "at most {} of the participants' time{as_sampled}: {} of their {} samples",
        percent(severity.share()),
        count(severity.samples),
        count(severity.thread_samples)
    );
    if let Some(worst) = worst_thread(finding) {
        text.push_str(&format!("; at most {worst} time"));
    }
    page.paragraph(&label("cost"), TEXT, &[plain(text)])
}

fn confidence(page: &mut Page<'_>, finding: &Finding) -> io::Result<()> {
    let mut text = finding.confidence.to_string();
    for evidence in &finding.evidence {
        match evidence {
            Evidence::Sampled(sampled) => text.push_str(&format!(": {}", met(sampled))),
            // Of the cost, not of the verdict: it has paragraphs of its own.
            Evidence::CoLocated(_) => {}
        }
    }
    page.paragraph(&label("confidence"), TEXT, &[plain(text)])
}

fn met(sampled: &Sampled) -> String {
    let window = sampled.window.0;
    let window = if window.is_multiple_of(1_000_000) {
        format!("{} ms", window / 1_000_000)
    } else {
        sampled.window.to_string()
    };
    let mut text = format!(
        "{} of {} samples met an opposing access of another thread, within {window} before and after: {} on disjoint \
         bytes, {} on the same bytes; {} on another processor",
        count(sampled.met),
        count(sampled.samples),
        count(sampled.met_disjoint),
        count(sampled.met_overlapping),
        count(sampled.met_on_other_cpu),
    );
    if sampled.plain_writes_only {
        text.push_str("; only plain writes meet");
    }
    text
}

/// What the verdict means for a repair of the layout.
const fn why(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::FalseSharing => None,
        Verdict::Mixed => Some(
            "a part of it is on the same bytes, which no layout changes: a repair removes only the rest",
        ),
        Verdict::Unproven => Some(
            "the evidence does not decide whether these threads need the same bytes: take it as a hint",
        ),
        Verdict::TrueSharing => Some(
            "the threads use the same bytes: wherever they lie, their line travels between the processors",
        ),
        Verdict::LockAndData => Some(
            "whoever takes the lock needs the data next: apart, two lines would travel instead of one",
        ),
    }
}

fn advice(page: &mut Page<'_>, advice: &Advice) -> io::Result<()> {
    let mut text = vec![plain(&advice.text)];
    if let Some(bytes) = advice.added_bytes {
        text.push(span(DIM, format!(" (adds {} bytes)", count(bytes))));
    }
    let name = match advice.kind {
        // Copies are another algorithm, not another layout of the same data.
        AdviceKind::LeaveAsIs | AdviceKind::PerThreadCopies => "advice",
        AdviceKind::PadElements | AdviceKind::IsolateWritten | AdviceKind::SplitFields => "repair",
    };
    page.paragraph(&label(name), TEXT, &text)
}

fn next(page: &mut Page<'_>, finding: &Finding) -> io::Result<()> {
    if finding.next.is_empty() {
        return Ok(());
    }
    page.paragraph(&label("next"), TEXT, &[span(TYPE_THIS, &finding.next)])
}

fn caveats(page: &mut Page<'_>, finding: &Finding) -> io::Result<()> {
    for caveat in &finding.caveats {
        page.paragraph(
            &[span(WARN, "   caveat")],
            TEXT,
            &[plain(caveat.to_string())],
        )?;
    }
    Ok(())
}
