//! How far a row is, and what it looks like so far, where there is a terminal.

use hitm_experiment::{LogRatio, Observer, Plan, Purpose, RowSpec, running_estimate};

use crate::commands::bar::{AT_MOST, Bar};

/// A line on stderr, or nothing where it would disturb.
pub(super) struct PairsLine {
    pub(super) bar: Bar,
    name: String,
}

impl PairsLine {
    pub(super) fn new(row: &RowSpec, plan: &Plan) -> Self {
        let all = plan.noise_pairs + plan.looks.most_pairs();
        Self {
            bar: Bar::new(Some(all), AT_MOST, &format!("{}: warming up", row.name)),
            name: row.name.clone(),
        }
    }
}

impl Observer for PairsLine {
    fn pair(&mut self, purpose: Purpose, differences: &[LogRatio]) {
        let what = match purpose {
            Purpose::WarmUp => "warming up",
            Purpose::Noise => "A against itself",
            Purpose::Pair => "B against A",
        };
        self.bar.step(|| {
            let so_far = running_estimate(differences).map_or_else(String::new, |effect| {
                format!(", {:+.1} % so far", effect.percent())
            });
            let pairs = differences.len();
            format!("{}: {what}, {pairs} pairs{so_far}", self.name)
        });
    }
}
