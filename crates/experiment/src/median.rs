//! Medians: of log ratios and of what was measured.

use crate::ratio::LogRatio;

/// The middle one, or halfway between the two in the middle.
pub(crate) fn median(values: &[LogRatio]) -> Option<LogRatio> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.ln().total_cmp(&b.ln()));
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[last / 2].midpoint(sorted[last.div_ceil(2)]))
}

/// The same of plain numbers.
pub(crate) fn middle(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    Some(f64::midpoint(sorted[last / 2], sorted[last.div_ceil(2)]))
}

/// The middle one, or the greater of the two in the middle: a value that was really measured.
pub(crate) fn seen(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
