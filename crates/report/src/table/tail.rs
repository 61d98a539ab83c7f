//! After the findings: threads compared without one, what is not listed, what limits the run, and the denominators.

use std::io;

use hitm_model::{Report, Totals, shell_word};

use super::TableOptions;
use super::compared::compared;
use crate::page::{BOLD, DIM, Page, TYPE_THIS, WARN, plain, span};
use crate::words::{count, counted, percent};

pub(super) fn tail(
    page: &mut Page<'_>,
    report: &Report,
    shown: usize,
    options: &TableOptions<'_>,
) -> io::Result<()> {
    page.blank()?;
    if report.findings.is_empty() {
        nothing(page, report)?;
    }
    if !report.compared.is_empty() {
        if report.findings.is_empty() {
            page.blank()?;
        }
        compared(page, &report.compared, report.line_size, options.all)?;
        page.blank()?;
    }
    hidden(page, report, shown, options.recording)?;
    for caveat in &report.caveats {
        page.paragraph(&[span(WARN, "caveat ")], 7, &[plain(caveat.to_string())])?;
    }
    denominators(page, &report.totals)
}

/// Nothing found is a result too, but no proof.
fn nothing(page: &mut Page<'_>, report: &Report) -> io::Result<()> {
    let what = if report.below_min_share == 0 {
        "No line was found that threads fight over."
    } else {
        "No line was found that threads fight over for long enough to be listed."
    };
    page.row(&[span(BOLD, what)])?;
    page.paragraph(
        &[],
        0,
        &[plain(format!(
            "Looked for: {}-byte lines that two threads touch at nearly the same time, at least one of them writing. \
             That none was seen is no proof that there is none: only code that ran was sampled, at these moments.",
            report.line_size
        ))],
    )
}

fn hidden(
    page: &mut Page<'_>,
    report: &Report,
    shown: usize,
    recording: Option<&str>,
) -> io::Result<()> {
    let mut left_out = |what: String, flags: &str| {
        let more = recording.map(|file| format!("hitm report {flags} {}", shell_word(file)));
        let text = match &more {
            Some(command) => vec![plain(what + ": "), span(TYPE_THIS, command)],
            None => vec![plain(what)],
        };
        page.paragraph(&[], 0, &text)
    };
    let more = report.findings.len() - shown;
    if more > 0 {
        left_out(
            format!("{} not shown", counted(more as u64, "finding")),
            "--all",
        )?;
    }
    if let Some(first) = report.communication.first() {
        let others = match report.communication.len() - 1 {
            0 => String::new(),
            more => format!(" and {}", counted(more as u64, "other")),
        };
        left_out(
            format!(
                "Not listed, as no layout changes it: {}{others}, which one thread writes and others read (at \
                 most {} of one thread's time)",
                first.field_path,
                percent(first.worst_thread)
            ),
            "--all",
        )?;
    }
    let below = report.below_min_share;
    if below > 0 {
        left_out(
            format!(
                "{} below the least share not listed",
                counted(below as u64, "finding")
            ),
            "--min-share 0",
        )?;
    }
    Ok(())
}

fn denominators(page: &mut Page<'_>, totals: &Totals) -> io::Result<()> {
    let mut text = format!(
        "{} ({} lost, {} undecoded), {} ({} with an address that is not known, {} outside every mapping)",
        counted(totals.samples, "sample"),
        count(totals.lost),
        count(totals.undecoded),
        counted(totals.operands, "memory operand"),
        count(totals.unresolved),
        count(totals.unmapped),
    );
    if let Some(share) = totals.co_running {
        text.push_str(&format!(
            "; threads were seen on two or more processors at once in {} of the time",
            percent(share)
        ));
    }
    page.paragraph(&[span(DIM, "basis  ")], 7, &[span(DIM, text)])
}
