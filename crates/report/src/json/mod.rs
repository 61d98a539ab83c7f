//! The report for programs: a versioned JSON document.
//!
//! Its types are its own, so that a change of the model does not change the document unnoticed. docs/report.schema.json
//! is generated from them, and docs/report.md explains each value.

mod convert;
mod convert_cost;
mod cost;
mod document;

use std::io::{self, Write};

use hitm_model::Report;

use crate::programs;
use document::Document;
pub(crate) use document::{Caveat, Hex, Source};

/// The version of the document. It grows when a value changes its meaning or goes; new values do not change it, so a
/// reader should pass over names that it does not know.
pub const JSON_VERSION: u32 = 1;

/// Renders `report` as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn json(report: &Report, out: &mut impl Write) -> io::Result<()> {
    programs::write(&Document::from(report), out)
}

/// The JSON Schema of what [`json`] writes: the text of docs/report.schema.json.
#[must_use]
pub fn json_schema() -> String {
    programs::schema::<Document>()
}
