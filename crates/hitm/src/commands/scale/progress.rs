//! How far it is, where there is a terminal.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use hitm_experiment::scale::{Observer, Plan, Threads};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on stderr, or nothing where it would disturb.
pub(super) struct Line {
    bar: Option<ProgressBar>,
    rounds: usize,
}

impl Line {
    pub(super) fn new(plan: &Plan) -> Self {
        let all = (plan.rounds * plan.points.len()) as u64;
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr());
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {bar:20} {wide_msg}, {eta} left")
            {
                bar.set_style(style);
            }
            bar.set_message("warming up");
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            bar,
            rounds: plan.rounds,
        }
    }

    /// What is being done.
    pub(super) fn says(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Line {
    fn ran(&mut self, round: usize, threads: Threads) {
        let Some(bar) = &self.bar else {
            return;
        };
        bar.inc(1);
        bar.set_message(format!(
            "round {} of {}: n = {threads}",
            round + 1,
            self.rounds
        ));
    }
}
