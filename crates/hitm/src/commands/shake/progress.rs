//! How far it is, where there is a terminal.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use hitm_experiment::shake::{Arm, Watcher};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on stderr, or nothing where it would disturb.
pub(super) struct Line {
    bar: Option<ProgressBar>,
    names: Vec<String>,
}

impl Line {
    pub(super) fn new() -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            bar,
            names: Vec::new(),
        }
    }

    /// What is being done.
    pub(super) fn says(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// From now on runs are counted.
    pub(super) fn runs(&mut self, rounds: usize, names: Vec<String>) {
        if let Some(bar) = &self.bar {
            bar.set_length((rounds * (names.len() + 2)) as u64);
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {bar:20} {wide_msg}, {eta} left")
            {
                bar.set_style(style);
            }
        }
        self.says("warming up");
        self.names = names;
    }

    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Watcher for Line {
    fn ran(&mut self, round: usize, arm: Arm) {
        let Some(bar) = &self.bar else {
            return;
        };
        bar.inc(1);
        let name = match arm {
            Arm::Base => "base",
            Arm::BaseAgain => "base again",
            Arm::Variant(number) => self.names.get(number).map_or("", String::as_str),
        };
        bar.set_message(format!("round {}: {name}", round + 1));
    }
}
