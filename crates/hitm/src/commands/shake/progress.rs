//! How far it is, where there is a terminal.

use hitm_experiment::shake::{Arm, Watcher};

use crate::commands::bar::{Bar, WORKING};

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

impl Watcher for Line {
    fn ran(&mut self, round: usize, arm: Arm) {
        let name = match arm {
            Arm::Base => "base",
            Arm::BaseAgain => "base again",
            Arm::Variant(number) => self.names.get(number).map_or("", String::as_str),
        };
        self.bar.step(|| format!("round {}: {name}", round + 1));
    }
}
