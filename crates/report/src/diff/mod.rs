//! Two builds compared, for people and for programs.

mod document;
mod table;

use std::io::{self, Write};

use hitm_model::BuildDiff;
use schemars::generate::SchemaSettings;

pub use table::{DiffTableOptions, diff_table};

/// The version of the JSON document of a comparison. It grows when a value changes its meaning or goes.
pub const DIFF_JSON_VERSION: u32 = 1;

/// Renders `diff` as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn diff_json(diff: &BuildDiff, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document::Document::from(diff))?;
    writeln!(out)
}

/// The JSON Schema of what [`diff_json`] writes: the text of docs/diff.schema.json.
#[must_use]
pub fn diff_json_schema() -> String {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<document::Document>();
    format!("{:#}\n", schema.to_value())
}
