//! The comparison so far, kept while it goes on.

use hitm_experiment::{
    ComparedRow, Comparison, Ended, LogRatio, Observer, Pair, Plan, Purpose, Row,
};
use hitm_report::comparison_json;

use super::progress::PairsLine;
use crate::commands::found::To;
use crate::commands::kept::Kept as File;

/// The comparison so far, and the file that it is kept in.
pub(super) struct Kept<'a> {
    file: File<'a>,
    comparison: Comparison,
}

impl<'a> Kept<'a> {
    pub(super) fn new(to: Option<To<'a>>, comparison: Comparison) -> Self {
        Self {
            file: File::new(to),
            comparison,
        }
    }

    /// The rows that are over.
    pub(super) fn into_rows(self) -> Vec<ComparedRow> {
        self.comparison.rows
    }

    /// A row is over.
    pub(super) fn over(&mut self, row: ComparedRow) {
        self.comparison.rows.push(row);
    }

    /// A row is under way.
    fn under_way(&mut self, row: ComparedRow) {
        self.comparison.rows.push(row);
        let comparison = &self.comparison;
        self.file.keep(|out| comparison_json(comparison, out));
        self.comparison.rows.pop();
    }
}

/// Shows how far a row is, and keeps it.
pub(super) struct Watching<'a, 'k> {
    pub(super) line: PairsLine,
    pub(super) kept: &'a mut Kept<'k>,
    /// What is known of the row.
    pub(super) row: &'a ComparedRow,
    pub(super) plan: Plan,
}

impl Observer for Watching<'_, '_> {
    fn pair(&mut self, purpose: Purpose, differences: &[LogRatio]) {
        self.line.pair(purpose, differences);
    }

    fn so_far(&mut self, noise: &[Pair], pairs: &[Pair]) {
        let mut row = self.row.clone();
        let measured = Row {
            floor: LogRatio::ZERO,
            plan: self.plan.clone(),
            noise: noise.to_vec(),
            pairs: pairs.to_vec(),
            estimate: None,
            ended: Ended::Running,
        };
        // The second measurement of a row comes after the first.
        match row.row {
            None => row.row = Some(measured),
            Some(_) => row.again = Some(measured),
        }
        self.kept.under_way(row);
    }
}
