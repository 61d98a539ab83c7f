//! Two sides compared by running them, for people and for programs.

mod document;
mod evidence;
mod mechanism;
mod notes;
mod sides;
mod table;

use std::io::{self, Write};

use hitm_experiment::Comparison;

use crate::programs;

pub use table::comparison_table;
pub(crate) use table::{number, signed};

/// The version of the JSON document of an experiment. It grows when a value changes its meaning or goes.
pub const COMPARISON_JSON_VERSION: u32 = 1;

/// Renders a comparison as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn comparison_json(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    programs::write(&document::Document::from(comparison), out)
}

/// The JSON Schema of what [`comparison_json`] writes: the text of docs/compare.schema.json.
#[must_use]
pub fn comparison_json_schema() -> String {
    programs::schema::<document::Document>()
}
