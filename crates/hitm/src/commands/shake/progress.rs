//! How far it is, where there is a terminal; and what was measured so far, in the JSON file.

use hitm_experiment::shake::{Arm, Judgement, Rounds, Shaken, Watcher};
use hitm_report::shake_json;

use crate::commands::bar::{Bar, WORKING};
use crate::commands::kept::Kept;

/// A line on stderr, or nothing where it would disturb.
pub(super) struct Line {
    pub(super) bar: Bar,
    names: Vec<String>,
}

impl Line {
    pub(super) fn new() -> Self {
        Self {
            bar: Bar::new(None, WORKING, ""),
            names: Vec::new(),
        }
    }

    /// From now on runs are counted: in each round the base, the base again, and each variant.
    pub(super) fn runs(&mut self, rounds: usize, names: Vec<String>) {
        self.bar.counts(rounds * (names.len() + 2));
        self.bar.says("warming up");
        self.names = names;
    }
}

/// Shows how far it is, and keeps it.
pub(super) struct Watching<'a, 'k> {
    pub(super) line: &'a mut Line,
    pub(super) kept: Kept<'k>,
    /// What is known before anything was run.
    pub(super) shaken: &'a Shaken,
    pub(super) judge: &'a dyn Fn(&Rounds<String>) -> Judgement,
}

impl Watcher<String> for Watching<'_, '_> {
    fn ran(&mut self, round: usize, arm: Arm) {
        let name = match arm {
            Arm::Base => "base",
            Arm::BaseAgain => "base again",
            Arm::Variant(number) => self.line.names.get(number).map_or("", String::as_str),
        };
        self.line
            .bar
            .step(|| format!("round {}: {name}", round + 1));
    }

    fn so_far(&mut self, rounds: &Rounds<String>) {
        let (judge, shaken) = (self.judge, self.shaken);
        self.kept.keep(|out| {
            let mut shaken = shaken.clone();
            shaken.judgement = Some(judge(rounds));
            shaken.rounds = Some(rounds.clone());
            shaken.settle();
            shake_json(&shaken, out)
        });
    }
}
