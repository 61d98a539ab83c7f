//! Annotations for the log of a build at GitHub: one line for each finding.

use std::io::{self, Write};

use hitm_model::{CheckReport, Confidence, SourceLine, StaticFinding, Violation};

use super::places::{SourceTree, plain};
use super::{command, headline, place_of, shown_first};
use crate::words::counted;

/// Writes `::error`, `::warning` and, for what limits the answer, `::notice` lines, and a last one without a mark. What the
/// policy allows or the baseline has is left out.
///
/// # Errors
/// If `out` cannot be written to.
pub fn github(
    reports: &[CheckReport],
    least: Confidence,
    tree: &SourceTree,
    out: &mut dyn Write,
) -> io::Result<()> {
    for report in reports {
        one(report, least, tree, out)?;
    }
    Ok(())
}

fn one(
    report: &CheckReport,
    least: Confidence,
    tree: &SourceTree,
    out: &mut dyn Write,
) -> io::Result<()> {
    for caveat in &report.caveats {
        let text = format!("{}: {}", report.binary, caveat.text());
        line(
            out,
            "notice",
            None,
            &format!("hitm: {}", caveat.name()),
            &text,
        )?;
    }
    let violations: Vec<&Violation> = report.violations.iter().filter(|it| !it.known).collect();
    for violation in &violations {
        let declared = violation
            .declared
            .as_ref()
            .map(|place| of_source(place, tree));
        let rule = report.policy.as_deref().map(|policy| {
            let file = tree.named(policy).unwrap_or_else(|| policy.to_owned());
            (file, violation.policy_line)
        });
        let title = format!("hitm: [[{}]]", violation.table);
        line(out, "error", declared.or(rule), &title, &violation.what)?;
    }
    let shown = |it: &&StaticFinding| it.confidence >= least && it.allowed.is_none() && !it.known;
    let findings: Vec<&StaticFinding> = report.findings.iter().filter(shown).collect();
    for finding in &findings {
        let party = finding.parties.get(shown_first(finding, tree));
        let place = party.and_then(place_of).map(|place| of_source(place, tree));
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
    let against = match &report.policy {
        Some(policy) => format!(
            "{} of {policy}",
            counted(violations.len() as u64, "violation")
        ),
        None => "no policy".to_owned(),
    };
    let found = counted(findings.len() as u64, "finding");
    writeln!(
        out,
        "hitm check {}: {against}, {found} of {least} confidence or more",
        message(&report.binary)
    )
}

fn of_source(place: &SourceLine, tree: &SourceTree) -> (String, u32) {
    let file = tree.source(&place.file);
    (file.unwrap_or_else(|| plain(&place.file)), place.line)
}

fn line(
    out: &mut dyn Write,
    level: &str,
    place: Option<(String, u32)>,
    title: &str,
    text: &str,
) -> io::Result<()> {
    let mut properties = Vec::new();
    if let Some((file, line)) = place {
        properties.push(format!("file={}", property(&file)));
        if line > 0 {
            properties.push(format!("line={line}"));
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
