//! A run as a JSON document with a schema.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

use crate::front::options::DispatchChoice;
use crate::run::{Measured, Verified};

/// Of the document. Rises when a value goes or changes its meaning.
pub const JSON_VERSION: u32 = 1;

/// A run of `ycsb` or `tpcc`.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub(crate) struct Document {
    /// Of this format.
    pub(crate) version: u32,
    /// What ran: `ycsb` or `tpcc`.
    pub(crate) program: String,
    /// How it ran.
    pub(crate) setup: Setup,
    /// Whether it was interrupted; figures are of what was executed until then.
    pub(crate) interrupted: bool,
    /// What it took.
    pub(crate) measured: Measured,
    /// What the comparison with the serial oracle showed, if it was asked for.
    pub(crate) verified: Option<Verified>,
    /// What a reader of the figures should know.
    pub(crate) caveats: Vec<String>,
}

/// How a run was set up.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub(crate) struct Setup {
    /// The log, `-` for the standard input.
    pub(crate) log: String,
    /// Worker threads.
    pub(crate) workers: usize,
    /// As it was asked for.
    pub(crate) dispatch: DispatchChoice,
    /// Processors: the dispatcher's, then the workers'. Empty: not pinned.
    pub(crate) pinned: Vec<usize>,
    /// The bound on what is in flight; nothing for the runtime's own, 1024.
    pub(crate) max_in_flight: Option<usize>,
    /// The time between arrivals, as `-i` has it.
    pub(crate) arrivals: String,
    /// What was in the tables.
    pub(crate) table: Table,
}

/// What was in the tables.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Table {
    /// YCSB's one table.
    Rows {
        /// How many.
        rows: u64,
        /// Bytes of each.
        row_bytes: u64,
    },
    /// TPC-C's tables.
    Warehouses {
        /// How many.
        warehouses: u64,
    },
}

/// The schema of the document, with a line break at the end.
///
/// # Panics
/// Never: the schema is made of plain data.
#[must_use]
pub fn json_schema() -> String {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<Document>();
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
