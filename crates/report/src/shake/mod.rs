//! A program in many layouts, for people and for programs.

mod document;
mod table;
mod words;

use std::io::{self, Write};

use hitm_experiment::shake::Shaken;

use crate::programs;

pub use table::shake_table;

/// The version of the JSON document. It grows when a value changes its meaning or goes.
pub const SHAKE_JSON_VERSION: u32 = 1;

/// Renders it as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn shake_json(shaken: &Shaken, out: &mut impl Write) -> io::Result<()> {
    programs::write(&document::Document::from(shaken), out)
}

/// The JSON Schema of what [`shake_json`] writes: the text of docs/shake.schema.json.
#[must_use]
pub fn shake_json_schema() -> String {
    programs::schema::<document::Document>()
}
