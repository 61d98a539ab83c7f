//! The table: a report for a person at a terminal.
//!
//! The order is that of a reader in a hurry: what was run, what was found, then each finding from its verdict down to
//! what limits it, and last the denominators of the whole run.

mod basis;
mod compared;
mod finding;
mod measured;
mod participants;
mod picture;
mod progress;
mod tail;

use std::io::{self, Write};

use anstyle::Style;
use hitm_model::{Finding, Nanos, Report, SamplerInfo, SamplerKind, Verdict, shell_command};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::page::{BAD, BOLD, DIM, Page, Span, WARN, plain, span};
use crate::words::{count, counted, ending, percent, sampler, some_of, verdict};

/// How a table is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableOptions<'a> {
    /// Whether to colour it. The text is the same without.
    pub color: bool,
    /// Columns of the terminal. Only names that are longer by themselves go beyond.
    pub width: u16,
    /// How many findings are shown in full; all without.
    pub top: Option<usize>,
    /// Whether everything is shown: all findings, lines, participants and sites.
    pub all: bool,
    /// The recording's file, for the commands that show more of it; there are none without.
    pub recording: Option<&'a str>,
}

/// Renders `report` as a table.
///
/// # Errors
/// If `out` cannot be written to.
pub fn table(report: &Report, options: &TableOptions<'_>, out: &mut impl Write) -> io::Result<()> {
    let page = &mut Page::new(out, options.color, options.width);
    summary(page, report)?;
    let shown = match options.top {
        Some(top) if !options.all => report.findings.len().min(top),
        _ => report.findings.len(),
    };
    overview(page, &report.findings, shown)?;
    let mut in_last_part = false;
    for (i, finding) in report.findings[..shown].iter().enumerate() {
        page.blank()?;
        if !repair_helps(finding.verdict) && !in_last_part {
            in_last_part = true;
            page.row(&[span(BOLD, "Sharing that no padding helps")])?;
            page.blank()?;
        }
        finding::finding(page, report, i, options.all)?;
    }
    tail::tail(page, report, shown, options)
}

/// Whether a layout could be better, or may be.
const fn repair_helps(verdict: Verdict) -> bool {
    match verdict {
        Verdict::FalseSharing | Verdict::Mixed | Verdict::Unproven => true,
        Verdict::TrueSharing | Verdict::LockAndData => false,
    }
}

const fn verdict_style(verdict: Verdict) -> Style {
    match verdict {
        Verdict::FalseSharing | Verdict::Mixed => BAD,
        Verdict::Unproven => WARN,
        Verdict::TrueSharing | Verdict::LockAndData => BOLD,
    }
}

/// Two lines: what was run, and how it was looked at.
fn summary(page: &mut Page<'_>, report: &Report) -> io::Result<()> {
    let totals = &report.totals;
    let what = match &report.run {
        Some(run) if !run.command.is_empty() => shell_command(&run.command),
        Some(run) => format!("process {}", run.pid),
        None => "an unnamed program".into(),
    };
    let mut ran = format!("  {}", duration(totals.duration));
    if let Some(status) = report.child {
        ran.push_str(&format!(", {}", ending(status)));
    }
    let room = page.width().saturating_sub(ran.len());
    page.row(&[span(BOLD, ellipsis(&what, room)), plain(ran)])?;

    let threads = match (totals.threads, totals.sampled_threads) {
        (all, sampled) if all == sampled => counted(all, "thread"),
        (all, sampled) => format!("{} of {}", count(sampled), counted(all, "thread")),
    };
    let mut how = format!("{threads}, {}", counted(totals.samples, "sample"));
    if let Some(sampler) = &report.sampler {
        how.push_str(&sampled_by(sampler));
    }
    page.paragraph(&[], 0, &[span(DIM, how)])
}

fn sampled_by(info: &SamplerInfo) -> String {
    let by = sampler(info.kind);
    if info.period.0 == 0 {
        return format!(", {by}");
    }
    let hertz = (1e9 / info.period.0 as f64).round();
    match info.cost {
        Some(cost) => format!(
            " at {hertz} Hz (about {} of the threads' time), {by}",
            percent(cost.0 as f64 / info.period.0 as f64)
        ),
        None => {
            let why = match info.kind {
                SamplerKind::Perf => ": too noisy",
                SamplerKind::Preload => " for the agent",
            };
            format!(" at {hertz} Hz (cost not measured{why}), {by}")
        }
    }
}

/// Where there are several findings: one line each, before any detail.
fn overview(page: &mut Page<'_>, all: &[Finding], shown: usize) -> io::Result<()> {
    if shown < 2 {
        return Ok(());
    }
    page.blank()?;
    let findings = &all[..shown];
    let cost = |at| measured::in_short(all, at).unwrap_or_else(|| at_most(&all[at]));
    let costs: Vec<_> = (0..shown).map(cost).collect();
    let names: Vec<_> = findings.iter().map(headline).collect();
    let cost_width = costs.iter().map(|cost| cost.width()).max().unwrap_or(0);
    let name_width = names.iter().map(|name| name.width()).max().unwrap_or(0);
    // The number and the verdict take 23 columns, the gap before the cost 2.
    let room = page.width().saturating_sub(23 + 2 + cost_width);
    for (i, finding) in findings.iter().enumerate() {
        let name = ellipsis(&names[i], room.max(10));
        let gap = name_width.min(room).saturating_sub(name.width()) + 2;
        page.row(&[
            plain(format!("{:>3}  ", i + 1)),
            span(
                verdict_style(finding.verdict),
                format!("{:<16}  ", verdict(finding.verdict)),
            ),
            plain(name),
            plain(format!("{:gap$}{}", "", costs[i])),
        ])?;
    }
    Ok(())
}

/// `at most 53 % (97 % of reader's)`.
fn at_most(finding: &Finding) -> String {
    let share = percent(finding.severity.share());
    match worst_thread(finding) {
        Some(worst) => format!("at most {share} ({worst})"),
        None => format!("at most {share}"),
    }
}

/// `97 % of reader's`, where one thread has clearly more to win than all of them: a rare victim beside a busy writer.
fn worst_thread(finding: &Finding) -> Option<String> {
    let worst = finding.severity.worst_thread;
    if worst.is_nan() || worst <= 1.25 * finding.severity.share() {
        return None;
    }
    let named = finding
        .participants
        .iter()
        .filter(|participant| participant.threads.tids.len() == 1)
        .max_by(|a, b| a.share().total_cmp(&b.share()))
        .filter(|participant| (participant.share() - worst).abs() < 0.005);
    let whose = named.map_or("one thread", |participant| &participant.threads.name);
    Some(format!("{} of {whose}'s", percent(worst)))
}

/// What a finding is about, in a few words.
fn headline(finding: &Finding) -> String {
    match (finding.objects.as_slice(), finding.lines.as_slice()) {
        ([], [line, ..]) => format!("line {}", line.address),
        ([], []) => "an unknown line".into(),
        (objects, _) => {
            // Objects of one type, as heap blocks often are, are named once.
            let mut names: Vec<(&str, usize)> = Vec::new();
            for object in objects {
                match names.iter_mut().find(|(name, _)| *name == object.name) {
                    Some((_, count)) => *count += 1,
                    None => names.push((&object.name, 1)),
                }
            }
            let names: Vec<String> = names
                .into_iter()
                .map(|(name, count)| match count {
                    1 => name.to_owned(),
                    count => format!("{name} × {count}"),
                })
                .collect();
            some_of(names.iter().map(String::as_str), 3)
        }
    }
}

/// `text` in `room` columns, its end cut off if need be.
fn ellipsis(text: &str, room: usize) -> String {
    if text.width() <= room {
        return text.to_owned();
    }
    let mut left = room.saturating_sub(1);
    let mut short: String = text
        .chars()
        .take_while(|c| {
            let fits = c.width().unwrap_or(1) <= left;
            left = left.saturating_sub(c.width().unwrap_or(1));
            fits
        })
        .collect();
    short.push('…');
    short
}

fn duration(span: Nanos) -> String {
    match span.as_secs_f64() {
        s if s < 10.0 => format!("{s:.2} s"),
        s if s < 120.0 => format!("{s:.1} s"),
        s => format!("{:.0} min {:.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
    }
}

/// A label in front of a paragraph of a finding.
fn label(text: &str) -> [Span; 1] {
    [span(DIM, format!("   {text}"))]
}
