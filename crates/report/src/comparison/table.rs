//! The table of an experiment: Markdown, so that it can be pasted where changes are discussed.

use std::io::{self, Write};

use hitm_experiment::{Better, ComparedRow, Comparison, DecidedBy, LogRatio, Outcome, Pair};

use super::mechanism::in_a_word;
use super::notes;
use crate::words::{count, counted};

/// Renders a comparison: one line a row, what got worst first, then what there is to know about each.
///
/// # Errors
/// If `out` cannot be written to.
pub fn comparison_table(comparison: &Comparison, out: &mut impl Write) -> io::Result<()> {
    let [a, b] = &comparison.names;
    writeln!(out, "B = {b} against A = {a}, on {}", comparison.machine)?;
    writeln!(out)?;
    let mut rows: Vec<&ComparedRow> = comparison.rows.iter().collect();
    rows.sort_by(|one, other| gain(one).total_cmp(&gain(other)));
    let lines: Vec<[String; COLUMNS]> = rows.iter().map(|row| line(row)).collect();
    write_markdown(&lines, out)?;
    let left = comparison.asked - comparison.rows.len();
    if left > 0 {
        writeln!(
            out,
            "\n{} not begun: interrupted",
            counted(left as u64, "row")
        )?;
    }
    for row in rows {
        let notes = notes::of(row, comparison.rows.len());
        if !notes.is_empty() {
            writeln!(out, "\n{}", row.name)?;
        }
        for note in notes {
            writeln!(out, "- {note}")?;
        }
    }
    Ok(())
}

const COLUMNS: usize = 8;

/// Markdown wants three dashes.
const LEAST_WIDTH: usize = 3;

const HEAD: [&str; COLUMNS] = [
    "row",
    "metric",
    "A",
    "B",
    "Δ",
    "95 % interval",
    "outcome",
    "pairs",
];

/// How much better B is; rows that say nothing come last.
fn gain(row: &ComparedRow) -> f64 {
    let effect = row.row.as_ref().and_then(|row| row.estimate.as_ref());
    effect.map_or(f64::INFINITY, |estimate| match row.better {
        Better::Higher => estimate.effect.ln(),
        Better::Lower => -estimate.effect.ln(),
    })
}

fn line(row: &ComparedRow) -> [String; COLUMNS] {
    let metric = match row.better {
        Better::Higher => format!("{}, higher is better", row.metric),
        Better::Lower => format!("{}, lower is better", row.metric),
    };
    let nothing = || "–".to_owned();
    let mut cells = [
        row.name.clone(),
        metric,
        nothing(),
        nothing(),
        nothing(),
        nothing(),
        outcome(row),
        "0".to_owned(),
    ];
    let Some(measured) = &row.row else {
        return cells;
    };
    let counted: Vec<&Pair> = measured
        .pairs
        .iter()
        .filter(|pair| pair.disturbed().is_empty())
        .collect();
    cells[7] = counted.len().to_string();
    let median = |of: fn(&Pair) -> f64| {
        let mut values: Vec<f64> = counted.iter().map(|pair| of(pair)).collect();
        values.sort_by(f64::total_cmp);
        values
            .get(values.len() / 2)
            .map_or_else(nothing, |value| number(row.metric.unit(), *value))
    };
    cells[2] = median(|pair| pair.a.value);
    cells[3] = median(|pair| pair.b.value);
    if let Some(estimate) = &measured.estimate {
        cells[4] = signed(estimate.effect);
        cells[5] = format!(
            "{} … {}",
            signed(estimate.interval.low),
            signed(estimate.interval.high)
        );
    }
    cells
}

/// The outcome, and what people look for beside it.
fn outcome(row: &ComparedRow) -> String {
    if row.is_refused() {
        return "refused".to_owned();
    }
    let Some(verdict) = &row.verdict else {
        return "undecided".to_owned();
    };
    let mut text = word(verdict.outcome).to_owned();
    if row.decided_by() == Some(DecidedBy::Mechanism)
        && let Some(evidence) = &row.evidence
    {
        text.push_str(&format!("; mechanism: {}", in_a_word(&evidence.says)));
    }
    if verdict.sigma_disjoint {
        text.push_str(" (σ-disjoint)");
    }
    if !row.refusals.is_empty() {
        text.push_str(" FORCED");
    }
    text
}

pub(super) fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Improved => "improved",
        Outcome::Regressed => "regressed",
        Outcome::Equivalent => "equivalent",
        Outcome::Undecided { .. } => "undecided",
    }
}

/// `+2.1 %`.
pub(crate) fn signed(ratio: LogRatio) -> String {
    let percent = ratio.percent();
    if percent.is_infinite() || ratio.ln().is_infinite() {
        return "unknown".to_owned();
    }
    let decimals = if percent.abs() < 9.95 { 1 } else { 0 };
    format!("{percent:+.decimals$} %")
}

/// A value of a metric with its unit.
pub(crate) fn number(unit: &str, value: f64) -> String {
    if unit == "s" && value < 1.0 {
        return format!("{:.1} ms", value * 1000.0);
    }
    let text = match value.abs() {
        size if size >= 10_000.0 => count(value.round() as u64),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.3}"),
        size if size >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.3e}"),
    };
    match unit {
        "" => text,
        unit => format!("{text} {unit}"),
    }
}

/// Columns line up in a terminal too. What would end a cell is escaped.
fn write_markdown(lines: &[[String; COLUMNS]], out: &mut impl Write) -> io::Result<()> {
    use unicode_width::UnicodeWidthStr as _;
    let cell = |text: &str| text.replace('|', r"\|").replace(['\n', '\r'], " ");
    let mut table = vec![HEAD.map(str::to_owned)];
    table.extend(
        lines
            .iter()
            .map(|line| line.each_ref().map(|text| cell(text))),
    );
    let width = |column: usize| {
        table
            .iter()
            .map(|line| line[column].width())
            .max()
            .unwrap_or(0)
            .max(LEAST_WIDTH)
    };
    let widths: Vec<usize> = (0..COLUMNS).map(width).collect();
    for (at, line) in table.iter().enumerate() {
        for (text, width) in line.iter().zip(&widths) {
            write!(out, "| {text}{} ", " ".repeat(width - text.width()))?;
        }
        writeln!(out, "|")?;
        if at == 0 {
            for width in &widths {
                write!(out, "| {} ", "-".repeat(*width))?;
            }
            writeln!(out, "|")?;
        }
    }
    Ok(())
}
