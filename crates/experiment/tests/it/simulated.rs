//! A machine with known truth: both sides' run times, their noise, and what goes wrong.

use hitm_experiment::{
    Better, Executor, Floor, Health, LogRatio, Looks, Plan, Purpose, Seconds, Side, Trial,
};

/// How run times scatter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Noise {
    /// Normal on the logarithm.
    Normal,
    /// Two modes, 4 standard deviations apart: a machine with a fast and a slow minute.
    Bimodal,
    /// Mostly calm, one run in ten far slower.
    Outliers,
    /// Wanders: what a run gets depends on the one before.
    Drift,
}

pub(crate) const ALL: [Noise; 4] = [Noise::Normal, Noise::Bimodal, Noise::Outliers, Noise::Drift];

pub(crate) struct Machine {
    /// B over A.
    pub(crate) effect: LogRatio,
    /// Of one run.
    pub(crate) cv: f64,
    pub(crate) noise: Noise,
    pub(crate) random: Random,
    pub(crate) spent: f64,
    drift: f64,
    /// Changes a trial before it is given out, by the number of the run.
    pub(crate) fault: fn(usize, Side, Trial) -> Result<Trial, &'static str>,
    pub(crate) runs: Vec<(Side, Purpose)>,
}

impl Machine {
    pub(crate) fn new(effect_percent: f64, cv: f64, noise: Noise, seed: u64) -> Self {
        Self {
            effect: LogRatio::from_percent(effect_percent),
            cv,
            noise,
            random: Random(seed),
            spent: 0.0,
            drift: 0.0,
            fault: |_, _, trial| Ok(trial),
            runs: Vec::new(),
        }
    }

    pub(crate) fn scatter(&mut self) -> f64 {
        let normal = self.random.normal();
        match self.noise {
            Noise::Normal => normal * self.cv,
            Noise::Bimodal => {
                let mode = if self.random.uniform() < 0.5 {
                    -0.9
                } else {
                    0.9
                };
                (mode + 0.44 * normal) * self.cv
            }
            Noise::Outliers => {
                let outlier = if self.random.uniform() < 0.1 {
                    8.0
                } else {
                    0.0
                };
                (normal + outlier) * self.cv
            }
            Noise::Drift => {
                self.drift = 0.9 * self.drift + 0.44 * normal;
                self.drift * self.cv
            }
        }
    }
}

impl Executor for Machine {
    type Failure = &'static str;

    fn run(&mut self, side: Side, purpose: Purpose) -> Result<Trial, &'static str> {
        let effect = match side {
            Side::A => 0.0,
            Side::B => self.effect.ln(),
        };
        let value = 10.0 * (effect + self.scatter()).exp();
        self.spent += value;
        self.runs.push((side, purpose));
        let health = Health {
            wall: Seconds(value),
            cpu: Seconds(value * 2.0),
            processors: 2,
            stolen: Some(Seconds(0.0)),
            foreign: Some(Seconds(0.0)),
            ..Health::default()
        };
        (self.fault)(self.runs.len(), side, Trial { value, health })
    }

    fn spent(&self) -> Seconds {
        Seconds(self.spent)
    }
}

/// The usual plan: at most 20 pairs, a floor of 1 % or what A differs from itself.
pub(crate) fn plan(rows: usize, seed: u64) -> Plan {
    Plan {
        looks: Looks::plan(20, rows),
        better: Better::Lower,
        floor: Floor::AtLeast(LogRatio::from_percent(1.0)),
        warm_up: 1,
        noise_pairs: 6,
        most_repeats: 10,
        budget: None,
        seed,
    }
}

/// SplitMix64, and normal numbers by G. E. P. Box and M. E. Muller's transformation.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}
