//! Two sides compared by running them, for people and for programs.

mod document;
mod evidence;
mod mechanism;
mod notes;
mod sides;
mod table;

use std::io::{self, Write};

use hitm_experiment::Comparison;
use schemars::generate::SchemaSettings;

pub use table::comparison_table;
pub(crate) use table::{number, signed};

/// The version of the JSON document of an experiment. It grows when a value changes its meaning or goes.
pub const COMPARISON_JSON_VERSION: u32 = 1;

/// Renders a comparison as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn comparison_json(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &document::Document::from(comparison))?;
    writeln!(out)
}

/// The JSON Schema of what [`comparison_json`] writes: the text of docs/compare.schema.json.
#[must_use]
pub fn comparison_json_schema() -> String {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<document::Document>();
    format!("{:#}\n", schema.to_value())
}
