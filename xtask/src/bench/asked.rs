//! What was asked of a command, beside what was measured.

use crate::pairs::median;

/// One line of the table.
#[derive(Debug)]
pub(super) struct Row {
    what: String,
    asked: String,
    measured: String,
    /// `None` where there was nothing to compare.
    met: Option<bool>,
}

impl Row {
    /// A figure that is to be at most `limit`; the median of `values`, with the least and the largest.
    pub(super) fn at_most(what: &str, values: &[f64], limit: f64, unit: &str) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = median(&sorted);
        let (least, most) = (sorted.first(), sorted.last());
        let end = |value: Option<&f64>| value.copied().unwrap_or(f64::NAN);
        Self {
            what: what.to_owned(),
            asked: format!("at most {limit} {unit}"),
            measured: format!(
                "{middle:.3} {unit} ({:.3}..{:.3}, {} runs)",
                end(least),
                end(most),
                sorted.len()
            ),
            met: Some(middle <= limit),
        }
    }

    /// Something that was not to be measured as a figure, or could not be.
    pub(super) fn said(what: &str, asked: &str, measured: String, met: Option<bool>) -> Self {
        Self {
            what: what.to_owned(),
            asked: asked.to_owned(),
            measured,
            met,
        }
    }
}

/// Prints rows in columns.
pub(super) fn print(rows: &[Row]) {
    let wide = |of: fn(&Row) -> &str, title: &str| {
        let texts = rows.iter().map(of).chain([title]);
        texts.map(|text| text.chars().count()).max().unwrap_or(0)
    };
    let what = wide(|row| &row.what, "what");
    let asked = wide(|row| &row.asked, "asked");
    let measured = wide(|row| &row.measured, "measured");
    println!(
        "{:what$}  {:asked$}  {:measured$}  met",
        "what", "asked", "measured"
    );
    for row in rows {
        let met = match row.met {
            Some(true) => "yes",
            Some(false) => "NO",
            None => "–",
        };
        println!(
            "{:what$}  {:asked$}  {:measured$}  {met}",
            row.what, row.asked, row.measured
        );
    }
}
