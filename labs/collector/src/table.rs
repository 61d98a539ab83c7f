//! The document as a table, row by row; the twin in C prints the same.

use crate::cli::{Layout, Op};
use crate::document::{Document, Program, Row};

/// What is above the rows.
pub(crate) fn header(document: &Document, runs: u32) -> String {
    let machine = &document.machine;
    let program = match document.program {
        Program::Rust => "Rust",
        Program::C => "C",
    };
    let how = match (document.locked, document.op) {
        (true, _) => "locked add",
        (false, Op::Dependent) => "load, add, store, and the next load depends on the value",
        (false, _) => "load, add, store",
    };
    let (layout, place) = match document.layout {
        Layout::Packed => ("packed", "counters 8 bytes apart".to_owned()),
        Layout::Padded => (
            "padded",
            format!("counters {} bytes apart", machine.line_size_bytes),
        ),
        Layout::PerThread => (
            "per-thread",
            "each thread's counter in a block of its own".to_owned(),
        ),
    };
    let pinned = if document.pinned {
        ", each on a processor of its own"
    } else {
        ""
    };
    format!(
        "collect ({program}): {layout}, {how}; {} counts by all threads together{pinned}, median of {runs} runs\n\
         {}, {} processors, lines of {} bytes ({}); {place}\n\
         threads     seconds         min         max  million/s  speed-up  processors  side by side",
        document.total,
        machine.processor,
        machine.processors,
        machine.line_size_bytes,
        machine.line_size_from.words(),
    )
}

/// A row.
pub(crate) fn row(row: &Row) -> String {
    let speed_up = row
        .speed_up
        .map_or("-".to_owned(), |speed_up| format!("{speed_up:.2}"));
    let used: f64 = row.runs.iter().map(|run| run.processors_used).sum();
    let side_by_side = if row.time_sliced {
        "time-sliced".to_owned()
    } else {
        format!("{} of {}", row.side_by_side_runs, row.runs.len())
    };
    format!(
        "{:>7}  {:>10.6}  {:>10.6}  {:>10.6}  {:>9.1}  {speed_up:>8}  {:>10.2}  {side_by_side}",
        row.threads,
        row.median_s,
        row.min_s,
        row.max_s,
        row.counts_per_second / 1e6,
        used / row.runs.len() as f64,
    )
}

/// What is below the rows.
pub(crate) const FOOTER: &str = "the sum was right in every run";
