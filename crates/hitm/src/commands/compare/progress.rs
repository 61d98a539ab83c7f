//! How far a row is, and what it looks like so far, where there is a terminal.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use hitm_experiment::{LogRatio, Observer, Plan, Purpose, RowSpec, running_estimate};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A line on stderr, or nothing where it would disturb.
pub(super) struct PairsLine {
    bar: Option<ProgressBar>,
    name: String,
}

impl PairsLine {
    pub(super) fn new(row: &RowSpec, plan: &Plan) -> Self {
        let all = plan.noise_pairs + plan.looks.most_pairs();
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(all as u64), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {bar:20} {wide_msg}") {
                bar.set_style(style);
            }
            bar.set_message(format!("{}: warming up", row.name));
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self {
            bar,
            name: row.name.clone(),
        }
    }

    pub(super) fn clear(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for PairsLine {
    fn pair(&mut self, purpose: Purpose, differences: &[LogRatio]) {
        let Some(bar) = &self.bar else {
            return;
        };
        bar.inc(1);
        let what = match purpose {
            Purpose::WarmUp => "warming up",
            Purpose::Noise => "A against itself",
            Purpose::Pair => "B against A",
        };
        let so_far = running_estimate(differences).map_or_else(String::new, |effect| {
            format!(", {:+.1} % so far", effect.percent())
        });
        bar.set_message(format!(
            "{}: {what}, {} pairs{so_far}",
            self.name,
            differences.len()
        ));
    }
}
