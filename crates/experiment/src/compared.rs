//! A whole comparison: what was asked, what was refused, what was measured, and what it says.

use crate::comparable::{GitRelation, Refusal, SideFacts};
use crate::evidence::Evidence;
use crate::judge::{Better, Outcome};
use crate::metric::Metric;
use crate::row::Row;
use crate::suite::Verdict;
use crate::trial::Side;

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
    /// Whether this is all; else it is what was measured so far, kept in case this process is killed.
    pub complete: bool,
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
    /// What the lines do on both sides, if that was asked for.
    pub evidence: Option<Evidence>,
}

/// What tells the sides of a row apart, or that they are the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecidedBy {
    /// The pairs.
    Pairs,
    /// The recordings: the pairs do not tell the sides apart, what the lines do does.
    Mechanism,
}

impl ComparedRow {
    /// What is known of a side.
    #[must_use]
    pub fn facts(&self, side: Side) -> &SideFacts {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    /// Whether the sides are not comparable. Most refusals are known before anything runs; some only afterwards.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        !self.refusals.is_empty() && !self.forced
    }

    /// What it says; `None` if it was refused, or has not ended.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let verdict = self.verdict.as_ref().filter(|_| !self.is_refused());
        verdict.map(|verdict| verdict.outcome)
    }

    /// What decided; `None` if nothing did.
    #[must_use]
    pub fn decided_by(&self) -> Option<DecidedBy> {
        let outcome = self.outcome()?;
        let by_mechanism = self
            .evidence
            .as_ref()
            .is_some_and(|evidence| evidence.says.decides());
        match outcome {
            Outcome::Improved | Outcome::Regressed => Some(DecidedBy::Pairs),
            _ if by_mechanism => Some(DecidedBy::Mechanism),
            Outcome::Equivalent => Some(DecidedBy::Pairs),
            Outcome::Undecided { .. } => None,
        }
    }
}
