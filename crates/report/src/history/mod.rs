//! What earlier comparisons said, over commits: for people and for programs.

mod document;
mod plot;
mod table;

use std::io::{self, Write};

use hitm_experiment::History;

use crate::programs;

pub use table::{HistoryTableOptions, history_table};

/// The version of the JSON document of a history. It grows when a value changes its meaning or goes.
pub const HISTORY_JSON_VERSION: u32 = 1;

/// Renders a history as JSON, with a line end behind it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn history_json(history: &History, out: &mut impl Write) -> io::Result<()> {
    programs::write(&document::Document::from(history), out)
}

/// The JSON Schema of what [`history_json`] writes: the text of docs/history.schema.json.
#[must_use]
pub fn history_json_schema() -> String {
    programs::schema::<document::Document>()
}
