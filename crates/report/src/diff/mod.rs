//! Two builds compared, for people and for programs.

mod document;
mod table;

use std::io::{self, Write};

use hitm_model::BuildDiff;

use crate::programs;

pub use table::{DiffTableOptions, diff_table};

/// The version of the JSON document of a comparison. It grows when a value changes its meaning or goes.
pub const DIFF_JSON_VERSION: u32 = 1;

/// Renders `diff` as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn diff_json(diff: &BuildDiff, out: &mut impl Write) -> io::Result<()> {
    programs::write(&document::Document::from(diff), out)
}

/// The JSON Schema of what [`diff_json`] writes: the text of docs/diff.schema.json.
#[must_use]
pub fn diff_json_schema() -> String {
    programs::schema::<document::Document>()
}
