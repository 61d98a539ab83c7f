//! The layout of a binary: its lines and its types, for people and for programs.

mod compact;
mod document;
mod lines;
mod types;

use std::io::{self, Write};

use hitm_model::LayoutReport;

use crate::page::{DIM, Page, span};
use crate::programs;

pub use compact::type_summary;

/// The version of the JSON document of a layout. It grows when a value changes its meaning or goes.
pub const LAYOUT_JSON_VERSION: u32 = 1;

/// How a layout is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutTableOptions {
    /// Whether to colour it. The text is the same without.
    pub color: bool,
    /// Columns of the terminal.
    pub width: u16,
    /// How many lines of a map are shown; all without.
    pub top: Option<usize>,
}

/// Renders `report` as a table.
///
/// # Errors
/// If `out` cannot be written to.
pub fn layout_table(
    report: &LayoutReport,
    options: &LayoutTableOptions,
    out: &mut impl Write,
) -> io::Result<()> {
    let page = &mut Page::new(out, options.color, options.width);
    let mut first = true;
    for map in &report.maps {
        if !std::mem::take(&mut first) {
            page.blank()?;
        }
        lines::map(page, &report.binary, map, options.top)?;
    }
    for view in &report.types {
        if !std::mem::take(&mut first) {
            page.blank()?;
        }
        types::view(page, view, report.line_size)?;
    }
    caveats(page, &report.caveats)
}

/// What limits a result, each with its remedy.
pub(crate) fn caveats(page: &mut Page<'_>, caveats: &[hitm_model::Caveat]) -> io::Result<()> {
    if !caveats.is_empty() {
        page.blank()?;
    }
    for caveat in caveats {
        page.paragraph(&[span(DIM, "note")], 6, &[span(DIM, caveat.to_string())])?;
    }
    Ok(())
}

/// Renders `report` as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn layout_json(report: &LayoutReport, out: &mut impl Write) -> io::Result<()> {
    programs::write(&document::Document::from(report), out)
}

/// The JSON Schema of what [`layout_json`] writes: the text of docs/layout.schema.json.
#[must_use]
pub fn layout_json_schema() -> String {
    programs::schema::<document::Document>()
}
