//! What was found in binaries, for people and for programs.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use anyhow::Context as _;

use crate::cli::JsonArg;

/// Writes the JSON where it was asked for, and the table unless the JSON has stdout to itself.
pub(super) fn show(
    to: &JsonArg,
    json: impl Fn(&mut BufWriter<Box<dyn Write>>) -> io::Result<()>,
    table: impl FnOnce(&mut Vec<u8>) -> io::Result<()>,
) -> anyhow::Result<()> {
    if to.on_stdout() {
        let mut out: BufWriter<Box<dyn Write>> = BufWriter::new(Box::new(io::stdout().lock()));
        json(&mut out)?;
        return Ok(out.flush()?);
    }
    if let Some(path) = to.file() {
        let cannot = || {
            format!(
                "cannot write {} (give another place: --json=FILE)",
                path.display()
            )
        };
        let file = File::create(path).with_context(cannot)?;
        let mut out: BufWriter<Box<dyn Write>> = BufWriter::new(Box::new(file));
        json(&mut out).with_context(cannot)?;
        out.flush().with_context(cannot)?;
    }
    let mut text = Vec::new();
    table(&mut text)?;
    Ok(anstream::stdout().lock().write_all(&text)?)
}
