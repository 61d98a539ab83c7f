//! Reports of `hitm check`: for people, for programs, for code scanners, for the log of a build.

mod document;
mod gate;
mod github;
mod places;
mod sarif;
mod table;

use std::io::{self, Write};

use hitm_model::{CheckReport, Confidence, Party, SourceLine, StaticFinding};

use crate::programs;
use document::Document;

pub use gate::{CheckFailOn, cannot_check, check_gate};
pub use github::github;
pub use places::SourceTree;
pub use sarif::sarif;
pub use table::{CheckTableOptions, check_table};

/// The version of the document. It grows when a value changes its meaning or goes.
pub const CHECK_JSON_VERSION: u32 = 1;

/// Renders reports as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn check_json(
    reports: &[CheckReport],
    least: Confidence,
    out: &mut impl Write,
) -> io::Result<()> {
    programs::write(&Document::new(reports, least), out)
}

/// The JSON Schema of what [`check_json`] writes: the text of docs/check.schema.json.
#[must_use]
pub fn check_json_schema() -> String {
    programs::schema::<Document>()
}

/// What is measured by which command: a static finding only says what may be.
fn command(report: &CheckReport) -> String {
    format!("hitm run -- {}", hitm_model::shell_word(&report.binary))
}

/// Where a party is in the source: where it is declared, else where it is touched.
fn place_of(party: &Party) -> Option<&SourceLine> {
    let touched = party.touched_by.iter().find_map(|it| it.source.as_ref());
    party.declared.as_ref().or(touched)
}

/// The party at whose place a finding is shown: the first that is in the project's own sources, else in any.
fn shown_first(finding: &StaticFinding, tree: &SourceTree) -> usize {
    let places = || finding.parties.iter().map(place_of);
    let own =
        |place: Option<&SourceLine>| place.is_some_and(|place| tree.source(&place.file).is_some());
    let first = places().position(own);
    first
        .or_else(|| places().position(|place| place.is_some()))
        .unwrap_or(0)
}

/// A finding in one line.
fn headline(finding: &StaticFinding) -> String {
    let mut names: Vec<&str> = finding
        .parties
        .iter()
        .map(|party| party.name.as_str())
        .collect();
    names.dedup();
    let listed = match names.as_slice() {
        [one] => (*one).to_owned(),
        [.., last] if names.len() <= 4 => {
            format!("{} and {last}", names[..names.len() - 1].join(", "))
        }
        _ => format!(
            "{} and {} more",
            names[..3.min(names.len())].join(", "),
            names.len().saturating_sub(3)
        ),
    };
    match finding.rule {
        hitm_model::StaticRule::ElementsShareLine => format!("elements of {listed} share lines"),
        hitm_model::StaticRule::PaddingWithoutAlignment => {
            format!("{listed}: padded, but not aligned")
        }
        hitm_model::StaticRule::AlignmentNotGiven => {
            format!("{listed} is allocated with less than the alignment that it asks for")
        }
        _ if names.len() == 1 => format!("parts of {listed} may share a line"),
        _ if finding.line.is_some() => format!("{listed} share a line"),
        _ => format!("{listed} may share a line"),
    }
}
