//! What was measured so far, in the JSON file, while it is being measured: it is there even if hitm is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use hitm_experiment::{
    ComparedRow, Comparison, Ended, LogRatio, Observer, Pair, Plan, Purpose, Row,
};
use hitm_report::comparison_json;

use super::super::found::{self, To};
use super::progress::PairsLine;
use crate::output;

/// Writing takes milliseconds; short runs are not to wait for it each time.
const EVERY: Duration = Duration::from_secs(1);

/// The comparison so far, and the file that it is kept in.
pub(super) struct Kept<'a> {
    file: Option<&'a Path>,
    comparison: Comparison,
    written: Option<Instant>,
}

impl<'a> Kept<'a> {
    /// Keeps nothing if JSON goes to stdout, or nowhere.
    pub(super) fn new(to: Option<To<'a>>, comparison: Comparison) -> Self {
        let file = match to {
            Some(To::File(path)) => Some(path),
            Some(To::Stdout) | None => None,
        };
        Self {
            file,
            comparison,
            written: None,
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
        let due = self.written.is_none_or(|at| at.elapsed() >= EVERY);
        let Some(file) = self.file.filter(|_| due) else {
            return;
        };
        self.written = Some(Instant::now());
        self.comparison.rows.push(row);
        let written = found::document(To::File(file), "--json", |out| {
            comparison_json(&self.comparison, out)
        });
        self.comparison.rows.pop();
        if let Err(error) = written {
            output::say(&format!(
                "hitm: what was measured so far is not kept, should hitm be killed: {error:#}"
            ));
            // Said once; at the end it is tried again.
            self.file = None;
        }
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
