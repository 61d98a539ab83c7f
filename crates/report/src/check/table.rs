//! The report of a check for people.

use std::io::{self, Write};

use hitm_model::{CheckReport, Confidence, Party, StaticFinding, StaticRule, Toucher};

use super::{command, headline};
use crate::page::{BAD, BOLD, DIM, Page, Span, TYPE_THIS, WARN, plain, span};
use crate::words::{count, counted};

/// Where the text of a labelled paragraph begins.
const TEXT: usize = 10;
/// So many explanations are shown.
const MOST_EXPLAINED: usize = 40;
/// So many parties and touchers of a finding are shown.
const MOST_SHOWN: usize = 8;

/// How to show a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckTableOptions {
    /// Whether styles are kept.
    pub color: bool,
    /// Columns.
    pub width: u16,
    /// The least confidence that is shown.
    pub least: Confidence,
    /// Whether it is said why something is no finding.
    pub explain: bool,
}

/// Renders one report.
///
/// # Errors
/// If `out` cannot be written to.
pub fn check_table(
    report: &CheckReport,
    options: &CheckTableOptions,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page::new(out, options.color, options.width);
    head(&mut page, report)?;
    for violation in &report.violations {
        let known = if violation.known {
            " (in the baseline)"
        } else {
            ""
        };
        let text = format!(
            "[[{}]] at line {} of the policy: {}{known}",
            violation.table, violation.policy_line, violation.what
        );
        page.paragraph(&[span(BAD, "violated")], TEXT, &[plain(text)])?;
    }
    if !report.violations.is_empty() {
        page.blank()?;
    }
    let shown = |finding: &&StaticFinding| finding.confidence >= options.least;
    for (number, finding) in report.findings.iter().filter(shown).enumerate() {
        one(&mut page, number + 1, finding)?;
    }
    tail(&mut page, report, options)
}

fn label(text: &str) -> Vec<Span> {
    vec![span(DIM, format!("   {text}"))]
}

fn head(page: &mut Page<'_>, report: &CheckReport) -> io::Result<()> {
    let totals = report.totals;
    let started: Vec<&hitm_model::ThreadRoot> = report.threads.iter().skip(1).collect();
    let threads = match started.len() {
        0 => "no start of a thread".to_owned(),
        n => counted(n as u64, "kind") + if n == 1 { " of thread" } else { " of threads" },
    };
    page.paragraph(
        &[],
        0,
        &[
            span(BOLD, &report.binary),
            plain(format!(
                ": {}, {threads}, lines of {} bytes",
                counted(totals.functions, "function"),
                report.line_size
            )),
        ],
    )?;
    let files = [("policy", &report.policy), ("baseline", &report.baseline)];
    for (what, path) in files {
        if let Some(path) = path {
            page.paragraph(&[span(DIM, what)], TEXT, &[plain(path)])?;
        }
    }
    for caveat in &report.caveats {
        page.paragraph(&[span(WARN, "note")], TEXT, &[plain(caveat.text())])?;
    }
    page.blank()
}

fn one(page: &mut Page<'_>, number: usize, finding: &StaticFinding) -> io::Result<()> {
    let style = match finding.confidence {
        Confidence::High => BAD,
        Confidence::Medium => WARN,
        Confidence::Low => DIM,
    };
    let mut title = vec![
        span(BOLD, format!("{number}. {}", headline(finding))),
        plain("  "),
        span(
            style,
            format!("[unproven, {} confidence]", finding.confidence),
        ),
        span(DIM, format!(" {}", finding.rule)),
    ];
    if finding.known {
        title.push(span(DIM, " (in the baseline)"));
    }
    page.paragraph(&[], 3, &title)?;
    if let Some(reason) = &finding.allowed {
        page.paragraph(&label("allowed"), TEXT, &[plain(reason)])?;
    }
    for party in finding.parties.iter().take(MOST_SHOWN) {
        self::party(page, party)?;
    }
    if finding.parties.len() > MOST_SHOWN {
        let more = finding.parties.len() - MOST_SHOWN;
        page.paragraph(
            &label(""),
            TEXT,
            &[plain(format!("and {} more", count(more as u64)))],
        )?;
    }
    page.paragraph(&label("why"), TEXT, &[plain(&finding.why)])?;
    let price = match finding.fix.instances {
        Some(instances) => format!(
            "{} bytes × {}",
            count(finding.fix.added_bytes),
            count(instances)
        ),
        None => {
            let each = match finding.rule {
                StaticRule::ElementsShareLine => "element",
                _ => "instance",
            };
            format!("{} bytes for each {each}", count(finding.fix.added_bytes))
        }
    };
    page.paragraph(
        &label("fix"),
        TEXT,
        &[plain(&finding.fix.text), span(DIM, format!(" (+{price})"))],
    )?;
    page.row(&[span(DIM, format!("   id     {}", finding.fingerprint))])?;
    page.blank()
}

fn party(page: &mut Page<'_>, party: &Party) -> io::Result<()> {
    let mut text = vec![span(BOLD, &party.name)];
    if let Some(name) = &party.type_name {
        text.push(span(DIM, format!(" ({name})")));
    }
    let section = party
        .section
        .as_deref()
        .map_or_else(String::new, |name| format!(" in {name}"));
    text.push(plain(format!(", {} bytes{section}", count(party.size))));
    if let Some(declared) = &party.declared {
        text.push(span(DIM, format!(", {declared}")));
    }
    page.paragraph(&label(&format!("+{}", party.offset)), TEXT, &text)?;
    for toucher in party.touched_by.iter().take(MOST_SHOWN) {
        page.paragraph(&[], TEXT + 2, &touched(toucher))?;
    }
    Ok(())
}

fn touched(toucher: &Toucher) -> Vec<Span> {
    let kinds = toucher.kinds;
    let does = match (kinds.atomic(), kinds.reads(), kinds.writes()) {
        (true, ..) => "changed atomically",
        (false, true, true) => "read and written",
        (false, false, true) => "written",
        _ => "read",
    };
    let often = if toucher.hot { " in a loop" } else { "" };
    let thread = match &toucher.thread {
        Some(thread) if *thread == toucher.function => String::new(),
        Some(thread) if thread.starts_with("thread of ") => format!(" ({thread})"),
        Some(thread) => format!(" (thread {thread})"),
        None => " (unknown thread)".to_owned(),
    };
    let place = toucher
        .source
        .as_ref()
        .map_or_else(String::new, |line| format!(", {line}"));
    vec![
        plain(format!("{does}{often} by ")),
        span(BOLD, &toucher.function),
        plain(format!("{thread}{place}")),
    ]
}

fn tail(page: &mut Page<'_>, report: &CheckReport, options: &CheckTableOptions) -> io::Result<()> {
    let at_least = |least| {
        report
            .findings
            .iter()
            .filter(|it| it.confidence >= least)
            .count()
    };
    let (shown, all) = (at_least(options.least), at_least(Confidence::Low));
    if shown > 0 {
        page.paragraph(
            &[],
            0,
            &[plain(
                "Each of these is a precondition, not a measurement: whether threads meet there, and what that costs, a \
                 run tells:",
            )],
        )?;
        page.row(&[span(TYPE_THIS, format!("  {}", command(report)))])?;
    } else {
        page.paragraph(
            &[],
            0,
            &[plain(format!(
                "Nothing of {} confidence or more.",
                options.least
            ))],
        )?;
    }
    if all > shown {
        page.paragraph(
            &[],
            0,
            &[span(
                DIM,
                format!(
                    "{} of less confidence: --all shows them",
                    counted((all - shown) as u64, "hint")
                ),
            )],
        )?;
    }
    if options.explain {
        page.blank()?;
        page.row(&[span(BOLD, "No findings, and why")])?;
        for explained in report.explained.iter().take(MOST_EXPLAINED) {
            page.paragraph(
                &[plain("  ")],
                4,
                &[
                    span(BOLD, explained.objects.join(", ")),
                    plain(format!(": {}", explained.why)),
                ],
            )?;
        }
        if report.explained.len() > MOST_EXPLAINED {
            let more = report.explained.len() - MOST_EXPLAINED;
            page.row(&[plain(format!(
                "  and {} more: --json has them",
                count(more as u64)
            ))])?;
        }
        if report.explained.is_empty() {
            page.row(&[plain("  nothing that looks like one")])?;
        }
    }
    Ok(())
}
