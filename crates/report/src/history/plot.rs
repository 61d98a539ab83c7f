//! A series as a picture of characters.

use std::io::{self, Write};

use hitm_experiment::Series;

/// Lines of the picture.
const HEIGHT: usize = 9;
/// Columns at most; of a longer series the last points are drawn.
const MOST_COLUMNS: usize = 100;

/// Draws a series, percent over its first drawn point; a bar marks the first point of each change.
pub(super) fn plot(series: &Series, out: &mut impl Write) -> io::Result<()> {
    let values = series.values();
    let skipped = values.len().saturating_sub(MOST_COLUMNS);
    let Some(first) = values.get(skipped) else {
        return Ok(());
    };
    let percent: Vec<f64> = values[skipped..]
        .iter()
        .map(|value| (value.ln() - first.ln()).exp_m1() * 100.0)
        .collect();
    let low = percent.iter().copied().fold(f64::INFINITY, f64::min);
    let high = percent.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Where all are the same there is one line.
    let height = if high > low { HEIGHT } else { 1 };
    let span = if high > low { high - low } else { 1.0 };
    let line_of = |value: f64| ((high - value) / span * (HEIGHT - 1) as f64).round() as usize;
    let starts = starts(series, skipped);
    for line in 0..height {
        let at = high - span * line as f64 / (HEIGHT - 1) as f64;
        let cells: String = percent
            .iter()
            .enumerate()
            .map(|(column, value)| match line_of(*value) == line {
                true => '●',
                false if starts.contains(&column) => '│',
                false => ' ',
            })
            .collect();
        writeln!(out, "  {at:>+8.2} % ┤{}", cells.trim_end())?;
    }
    writeln!(out, "             └{}", "─".repeat(percent.len()))
}

/// The columns in which changes begin.
fn starts(series: &Series, skipped: usize) -> Vec<usize> {
    use hitm_experiment::Change;
    let start = |change: &Change| match change {
        Change::Step { at, .. } => *at,
        Change::Drift { from, .. } => *from,
    };
    let changes = series.detected.changes.iter();
    changes
        .filter_map(|change| start(change).checked_sub(skipped))
        .collect()
}
