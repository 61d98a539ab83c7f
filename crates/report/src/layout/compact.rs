//! A type in few lines, for lists of thousands.

use std::io::{self, Write};

use hitm_model::{LineSize, TypeRow, TypeView};

use super::types::{described, title};

/// Writes a type's members, its padding, and a rule where each line begins.
///
/// # Errors
/// If `out` cannot be written to.
pub fn type_summary(view: &TypeView, line_size: LineSize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", title(view))?;
    rows(&view.rows, line_size, out)?;
    for variant in &view.variants {
        writeln!(out, "   {}", super::types::variant_words(variant))?;
        rows(&variant.rows, line_size, out)?;
    }
    if view.padding > 0 {
        let (bytes, holes) = (view.padding, view.holes);
        let s = if holes == 1 { "" } else { "s" };
        writeln!(out, "   padding: {bytes} bytes in {holes} hole{s}")?;
    }
    writeln!(out)
}

fn rows(rows: &[TypeRow], line_size: LineSize, out: &mut impl Write) -> io::Result<()> {
    let bytes = u64::from(line_size.bytes());
    let mut line = 0;
    for row in rows {
        if row.offset / bytes > line {
            line = row.offset / bytes;
            writeln!(out, "   ── line {line} ──")?;
        }
        let size = row
            .size
            .map_or_else(|| "?".to_owned(), |size| size.to_string());
        writeln!(out, "{:>9} {size:>6}  {}", row.offset, described(row))?;
        let last = row.offset.saturating_add(row.size.unwrap_or(1).max(1) - 1) / bytes;
        if last > line && row.bits.is_none() {
            line = last;
            writeln!(out, "   ── line {line} begins in it ──")?;
        }
    }
    Ok(())
}
