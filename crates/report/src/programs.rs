//! Documents for programs: JSON, and the schema of it.

use std::io::{self, Write};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;

/// Writes a document, with a line end behind it.
pub(crate) fn write(document: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// The JSON Schema of what [`write`] writes of such a document: the text of a file in docs/.
pub(crate) fn schema<T: JsonSchema>() -> String {
    let schema = SchemaSettings::draft2020_12()
        .for_serialize()
        .into_generator()
        .into_root_schema_for::<T>();
    format!("{:#}\n", schema.to_value())
}
