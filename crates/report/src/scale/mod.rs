//! What more threads give, for people, for programs, and as a picture.

mod document;
mod plot;
mod svg;
mod table;
mod words;

use std::io::{self, Write};

use hitm_experiment::scale::Scaled;

use crate::programs;

pub use svg::scale_svg;
pub use table::scale_table;

/// The version of the JSON document of a scaling experiment. It grows when a value changes its meaning or goes.
pub const SCALE_JSON_VERSION: u32 = 1;

/// Renders it as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn scale_json(scaled: &Scaled, out: &mut impl Write) -> io::Result<()> {
    programs::write(&document::Document::of(scaled)?, out)
}

/// The JSON Schema of what [`scale_json`] writes: the text of docs/scale.schema.json.
#[must_use]
pub fn scale_json_schema() -> String {
    programs::schema::<document::Document>()
}
