//! A whole comparison: what was asked, what was refused, what was measured, and what it says.

use crate::comparable::{GitRelation, Refusal, SideFacts};
use crate::judge::Better;
use crate::metric::Metric;
use crate::row::Row;
use crate::suite::Verdict;

/// All rows of a comparison.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The names of A and B.
    pub names: [String; 2],
    /// Rows that were asked for; more than there are, if the user interrupted.
    pub asked: usize,
    /// The rows that were begun.
    pub rows: Vec<ComparedRow>,
    /// A program was compared with itself on purpose.
    pub aa: bool,
    /// The machine, in one line.
    pub machine: String,
}

/// One row.
#[derive(Clone, Debug)]
pub struct ComparedRow {
    /// Its name.
    pub name: String,
    /// What was compared.
    pub metric: Metric,
    /// Which values are good.
    pub better: Better,
    /// What is known of A.
    pub a: SideFacts,
    /// What is known of B.
    pub b: SideFacts,
    /// How their commits are related, where git can tell.
    pub git: Option<GitRelation>,
    /// Why they should not be compared.
    pub refusals: Vec<Refusal>,
    /// The user had them compared all the same.
    pub forced: bool,
    /// The measurement, unless it was refused.
    pub row: Option<Row<String>>,
    /// The second measurement of a row whose first was odd.
    pub again: Option<Row<String>>,
    /// What it says, all rows considered.
    pub verdict: Option<Verdict>,
}

impl ComparedRow {
    /// Whether it was not measured because the sides are not comparable.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        !self.refusals.is_empty() && !self.forced
    }
}
