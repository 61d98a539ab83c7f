//! How far it is, where there is a terminal.

use hitm_experiment::scale::{Observer, Plan, Threads};

use crate::commands::bar::{Bar, COUNTED};

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

impl Observer for Line {
    fn ran(&mut self, round: usize, threads: Threads) {
        let rounds = self.rounds;
        self.bar
            .step(|| format!("round {} of {rounds}: n = {threads}", round + 1));
    }
}
