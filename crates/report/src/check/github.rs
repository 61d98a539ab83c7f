//! Annotations for the log of a build at GitHub: one line for each finding.

use std::io::{self, Write};

use hitm_model::{CheckReport, Confidence, SourceLine};

use super::{command, headline};

/// Writes `::error` and `::warning` lines. What the policy allows or the baseline has is left out.
///
/// # Errors
/// If `out` cannot be written to.
pub fn github(reports: &[CheckReport], least: Confidence, out: &mut dyn Write) -> io::Result<()> {
    for report in reports {
        for violation in report.violations.iter().filter(|it| !it.known) {
            let title = format!("hitm: [[{}]]", violation.table);
            line(
                out,
                "error",
                violation.declared.as_ref(),
                &title,
                &violation.what,
            )?;
        }
        for finding in &report.findings {
            if finding.confidence < least || finding.allowed.is_some() || finding.known {
                continue;
            }
            let place = finding.parties.iter().find_map(|party| {
                let touched = party.touched_by.iter().find_map(|it| it.source.as_ref());
                party.declared.as_ref().or(touched)
            });
            let text = format!(
                "{} ({} confidence, a precondition, not a measurement): {}\nFix: {}\nMeasure: {}",
                headline(finding),
                finding.confidence,
                finding.why,
                finding.fix.text,
                command(report)
            );
            line(
                out,
                "warning",
                place,
                &format!("hitm: {}", finding.rule),
                &text,
            )?;
        }
    }
    Ok(())
}

fn line(
    out: &mut dyn Write,
    level: &str,
    place: Option<&SourceLine>,
    title: &str,
    text: &str,
) -> io::Result<()> {
    let mut properties = Vec::new();
    if let Some(place) = place {
        properties.push(format!("file={}", property(&place.file)));
        if place.line > 0 {
            properties.push(format!("line={}", place.line));
        }
    }
    properties.push(format!("title={}", property(title)));
    writeln!(out, "::{level} {}::{}", properties.join(","), message(text))
}

fn message(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
