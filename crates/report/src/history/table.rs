//! A history for people: what each series says, its picture and its points.

use std::io::{self, Write};

use hitm_experiment::{Better, Change, History, LEAST_POINTS, LogRatio, Measure, Point, Series};

use super::plot::plot;
use crate::comparison::{number, signed};
use crate::words::counted;

/// Digits of a commit that are enough for people.
const DIGITS: usize = 12;

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HistoryTableOptions {
    /// Draw each series.
    pub plot: bool,
    /// List all points.
    pub points: bool,
}

/// Renders a history: machine by machine, a paragraph for each series.
///
/// # Errors
/// If `out` cannot be written to.
pub fn history_table(
    history: &History,
    options: &HistoryTableOptions,
    out: &mut impl Write,
) -> io::Result<()> {
    if history.series.is_empty() {
        return writeln!(
            out,
            "no row with a result was saved yet (hitm compare … --save)"
        );
    }
    let mut machine = None;
    for series in &history.series {
        if machine != Some(&series.key.machine) {
            if machine.is_some() {
                writeln!(out)?;
            }
            writeln!(out, "on {}", series.key.machine)?;
            machine = Some(&series.key.machine);
        }
        writeln!(out)?;
        one(series, options, out)?;
    }
    if history.series.len() > 1 {
        let all = history.series.len();
        writeln!(
            out,
            "\nThat noise alone makes any of these {all} series look changed has a probability of at most 5 %, each time one looks."
        )?;
    }
    Ok(())
}

fn one(series: &Series, options: &HistoryTableOptions, out: &mut impl Write) -> io::Result<()> {
    let (key, points) = (&series.key, &series.points);
    let better = match series.better {
        Better::Higher => "higher is better",
        Better::Lower => "lower is better",
    };
    writeln!(
        out,
        "{} ({}, {better}): {}",
        key.row, key.metric, key.command
    )?;
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Ok(());
    };
    writeln!(
        out,
        "- {} from {} to {}; the last: {} at {}",
        counted(points.len() as u64, "point"),
        first.saved,
        last.saved,
        number(&key.unit, last.value),
        commit(last)
    )?;
    for line in says(series) {
        writeln!(out, "- {line}")?;
    }
    if options.plot {
        plot(series, out)?;
    }
    if options.points {
        for point in points {
            writeln!(
                out,
                "  {}  {:<14}  {:>12}  {:>8} against A  {}",
                point.saved,
                commit(point),
                number(&key.unit, point.value),
                signed(point.effect),
                point.outcome
            )?;
        }
    }
    Ok(())
}

/// What the series says, and of what.
fn says(series: &Series) -> Vec<String> {
    let of = match series.measure {
        Measure::AgainstBase => "B against the same A",
        Measure::Own => "B's own median, as A changed",
    };
    let n = series.points.len();
    if n < LEAST_POINTS {
        return vec![format!(
            "too short to tell a change from noise: {LEAST_POINTS} points at least"
        )];
    }
    if series.detected.changes.is_empty() {
        return vec![format!(
            "flat: no change of 1 % or more beyond the noise (p {:.3}; of {of})",
            series.detected.adjusted_p
        )];
    }
    let changes = series.detected.changes.iter();
    changes
        .map(|change| {
            format!(
                "{} (p {:.3}; of {of})",
                self::change(series, change),
                series.detected.adjusted_p
            )
        })
        .collect()
}

fn change(series: &Series, change: &Change) -> String {
    let size = change.size();
    let word = match (series.better, size > LogRatio::ZERO) {
        (Better::Higher, true) | (Better::Lower, false) => "better",
        _ => "worse",
    };
    let at = |index: usize| {
        let point = &series.points[index.min(series.points.len() - 1)];
        format!("{} ({})", commit(point), point.saved)
    };
    match *change {
        Change::Step { at: first, .. } => {
            format!("{word} by {} from {} on", signed(size), at(first))
        }
        Change::Drift { from, to, each } => format!(
            "{word} little by little: {} in all from {} to {}, {:+.2} % from point to point",
            signed(size),
            at(from),
            at(to),
            each.percent()
        ),
    }
}

fn commit(point: &Point) -> String {
    let Some(commit) = &point.commit else {
        return "no commit".to_owned();
    };
    let short = commit.get(..DIGITS).unwrap_or(commit);
    if point.dirty {
        format!("{short}+")
    } else {
        short.to_owned()
    }
}
