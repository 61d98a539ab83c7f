//! How far it is, where there is a terminal; and what was measured so far, in the JSON file.

use hitm_experiment::scale::{Observer, Plan, Rounds, Threads};
use hitm_report::scale_json;

use super::Subject;
use crate::commands::bar::{Bar, COUNTED};
use crate::commands::kept::Kept;

/// A line on stderr, or nothing where it would disturb.
pub(super) struct Line {
    pub(super) bar: Bar,
    rounds: usize,
}

impl Line {
    pub(super) fn new(plan: &Plan) -> Self {
        let all = plan.rounds * plan.points.len();
        Self {
            bar: Bar::new(Some(all), COUNTED, "warming up"),
            rounds: plan.rounds,
        }
    }
}

/// Shows how far it is, and keeps it.
pub(super) struct Watching<'a, 'k> {
    pub(super) line: &'a mut Line,
    pub(super) kept: Kept<'k>,
    pub(super) subject: &'a Subject<'a>,
}

impl Observer<String> for Watching<'_, '_> {
    fn ran(&mut self, round: usize, threads: Threads) {
        let rounds = self.line.rounds;
        self.line
            .bar
            .step(|| format!("round {} of {rounds}: n = {threads}", round + 1));
    }

    fn so_far(&mut self, rounds: &Rounds<String>) {
        let subject = self.subject;
        self.kept
            .keep(|out| scale_json(&subject.scaled(rounds.clone()), out));
    }
}
