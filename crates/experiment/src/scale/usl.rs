//! The Universal Scalability Law: throughput X(n) = λn / (1 + σ(n − 1) + κn(n − 1)).
//!
//! λ is the throughput of one thread, σ the part of the work that is done one after the other (*contention*), κ what every
//! pair of threads costs to agree on data (*coherence*): with κ > 0 there is a number of threads beyond which more of them
//! are slower. N. J. Gunther, "Guerrilla Capacity Planning" (Springer, 2007), chapters 4 to 6.
//!
//! Fitted by least squares to the logarithms of throughput, because noise multiplies. All points of a round have an error in
//! common (a slow minute); it moves λ alone, so σ and κ are fitted to the means over rounds, and the noise is what is left
//! in the rounds' table when its rows' and columns' means are taken out: (k − 1)(R − 1) degrees of freedom of k points and R
//! rounds. The interval of a term is its profile likelihood's: all values at which the best fit of the rest is not worse than
//! Student's t allows. The terms may be negative while intervals are sought, and what is below zero is cut off afterwards:
//! so an interval covers as often at the border as elsewhere. Estimates themselves are kept from being negative.
//!
//! Where the points are farther from the law than noise explains (Fisher's F at 5 %), what is left over counts as the noise.

use statrs::distribution::{ContinuousCDF as _, FisherSnedecor, StudentsT};

use super::points::Threads;
use crate::looks::ERROR;

/// With fewer points the two terms cannot be told from noise.
pub const LEAST_POINTS: usize = 4;

/// Noise that is smaller is not believed: clocks have steps.
const LEAST_NOISE: f64 = 1e-6;

/// What the law says of the points.
#[derive(Clone, PartialEq, Debug)]
pub struct Fit {
    /// λ: the throughput of one thread.
    pub one: f64,
    /// σ: contention.
    pub contention: Term,
    /// κ: coherence.
    pub coherence: Term,
    /// How far the farthest point's mean is from the law, as a part of it.
    pub farthest: f64,
    /// Whether noise explains what the points are away from the law.
    pub follows: bool,
}

/// A term of the law, with a 95 % interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Term {
    /// The best fit that is not negative.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end; infinite if the points set none.
    pub high: f64,
}

/// Why there is no fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoFit {
    /// Too few points that fit the processors, and count.
    TooFewPoints {
        /// So many there are.
        points: usize,
    },
    /// Noise needs at least two rounds.
    TooFewRounds,
    /// A whole interval is below zero: the program gains more than one thread's work with each thread.
    MoreThanLinear,
    /// It is not known what the times mean.
    WorkNotSaid,
}

impl Fit {
    /// Throughput with so many threads.
    #[must_use]
    pub fn at(&self, threads: f64) -> f64 {
        let more = threads - 1.0;
        let lost = self.contention.estimate * more + self.coherence.estimate * threads * more;
        self.one * threads / (1.0 + lost)
    }

    /// The number of threads beyond which more of them are slower, if coherence is shown to cost anything.
    #[must_use]
    pub fn peak(&self) -> Option<f64> {
        let shown = self.coherence.low > 0.0 && self.contention.estimate < 1.0;
        shown.then(|| ((1.0 - self.contention.estimate) / self.coherence.estimate).sqrt())
    }

    /// Fits throughputs: of each point its threads, and one value of each round.
    ///
    /// # Errors
    /// If they do not permit a fit.
    pub fn of(points: &[(Threads, Vec<f64>)]) -> Result<Self, NoFit> {
        if points.len() < LEAST_POINTS {
            return Err(NoFit::TooFewPoints {
                points: points.len(),
            });
        }
        let rounds = points.iter().map(|(_, values)| values.len()).min();
        let rounds = rounds.filter(|rounds| *rounds >= 2);
        let table = Table::of(points, rounds.ok_or(NoFit::TooFewRounds)?);
        let law = Law {
            points: table.points(points),
        };
        let free = law.best();
        let noise = table.noise(free.left);
        let allowed = free.left + noise.allowed / table.rounds as f64;
        let contention = law.interval(Which::Contention, free.sigma, allowed);
        let coherence = law.interval(Which::Coherence, free.kappa, allowed);
        if contention.1 < 0.0 || coherence.1 < 0.0 {
            return Err(NoFit::MoreThanLinear);
        }
        let best = law.best_not_negative(free);
        let term = |estimate: f64, (low, high): (f64, f64)| Term {
            estimate,
            low: low.max(0.0).min(estimate),
            high: high.max(estimate),
        };
        let mean = law.mean(best.sigma, best.kappa);
        let away = law.residuals(best.sigma, best.kappa);
        Ok(Self {
            one: mean.exp(),
            contention: term(best.sigma, contention),
            coherence: term(best.kappa, coherence),
            farthest: away.map(|e| (e - mean).exp_m1().abs()).fold(0.0, f64::max),
            follows: noise.explains,
        })
    }
}

/// Logarithms of throughput, by point and round.
struct Table {
    logs: Vec<Vec<f64>>,
    rounds: usize,
}

/// What is left to chance.
struct Noise {
    /// By so much may the sum of squares over all rounds grow.
    allowed: f64,
    explains: bool,
}

impl Table {
    fn of(points: &[(Threads, Vec<f64>)], rounds: usize) -> Self {
        let logs = |(_, values): &(Threads, Vec<f64>)| -> Vec<f64> {
            values.iter().take(rounds).map(|x| x.ln()).collect()
        };
        Self {
            logs: points.iter().map(logs).collect(),
            rounds,
        }
    }

    /// (n − 1, n(n − 1), ln X/n) of each point.
    fn points(&self, points: &[(Threads, Vec<f64>)]) -> Vec<(f64, f64, f64)> {
        let point = |((threads, _), logs): (&(Threads, Vec<f64>), &Vec<f64>)| {
            let n = f64::from(threads.0);
            (n - 1.0, n * (n - 1.0), mean(logs) - n.ln())
        };
        points.iter().zip(&self.logs).map(point).collect()
    }

    /// The noise, if the best fit leaves so much of the means.
    fn noise(&self, left: f64) -> Noise {
        let points = self.logs.len();
        let of_round = |round: usize| mean(&self.logs.iter().map(|p| p[round]).collect::<Vec<_>>());
        let of_rounds: Vec<f64> = (0..self.rounds).map(of_round).collect();
        let all = mean(&of_rounds);
        let mut squares = 0.0;
        for logs in &self.logs {
            let point = mean(logs);
            for (log, round) in logs.iter().zip(&of_rounds) {
                squares += (log - point - round + all).powi(2);
            }
        }
        let free = ((points - 1) * (self.rounds - 1)) as f64;
        let variance = (squares / free).max(LEAST_NOISE * LEAST_NOISE);
        let over = (points - 3) as f64;
        let misfit = self.rounds as f64 * left / over;
        let limit =
            FisherSnedecor::new(over, free).map_or(f64::INFINITY, |f| f.inverse_cdf(1.0 - ERROR));
        let explains = misfit <= limit * variance;
        let (variance, free) = match explains {
            true => (variance, free),
            false => (misfit, over),
        };
        let t = StudentsT::new(0.0, 1.0, free)
            .map_or(f64::INFINITY, |t| t.inverse_cdf(1.0 - ERROR / 2.0));
        Noise {
            allowed: variance * t * t,
            explains,
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The means of the points.
struct Law {
    points: Vec<(f64, f64, f64)>,
}

#[derive(Clone, Copy)]
enum Which {
    Contention,
    Coherence,
}

#[derive(Clone, Copy)]
struct Best {
    sigma: f64,
    kappa: f64,
    /// The sum of squares that is left.
    left: f64,
}

/// Terms are sought between -1, below which one thread more would be none, and this.
const MOST: f64 = 1e3;
/// Where the least value is, as a part of the distance from the law's border: what is lost is the square of it.
const CLOSE: f64 = 1e-6;
/// Of the last doubling step in which an interval ends.
const BISECTIONS: u32 = 20;

impl Law {
    /// ln X − ln n + ln(1 + σ(n − 1) + κn(n − 1)), which the law says is ln λ at every point.
    fn residuals(&self, sigma: f64, kappa: f64) -> impl Iterator<Item = f64> + '_ {
        self.points
            .iter()
            .map(move |(one, two, y)| y + (1.0 + sigma * one + kappa * two).ln())
    }

    fn mean(&self, sigma: f64, kappa: f64) -> f64 {
        self.residuals(sigma, kappa).sum::<f64>() / self.points.len() as f64
    }

    /// The sum of squares with the best λ; infinite where the law has no value.
    fn left(&self, sigma: f64, kappa: f64) -> f64 {
        let residuals: Vec<f64> = self.residuals(sigma, kappa).collect();
        let mean = mean(&residuals);
        let sum: f64 = residuals.iter().map(|e| (e - mean).powi(2)).sum();
        if sum.is_finite() { sum } else { f64::INFINITY }
    }

    /// The best of one term if the other is given, and the sum of squares there.
    fn rest(&self, which: Which, given: f64) -> (f64, f64) {
        let split = |point: &(f64, f64, f64)| match which {
            Which::Contention => (point.0, point.1),
            Which::Coherence => (point.1, point.0),
        };
        // Below, the law has no value at some point.
        let least = self
            .points
            .iter()
            .map(split)
            .filter(|(_, other)| *other > 0.0)
            .map(|(this, other)| -(1.0 + given * this) / other)
            .fold(f64::NEG_INFINITY, f64::max);
        let left = |other: f64| match which {
            Which::Contention => self.left(given, other),
            Which::Coherence => self.left(other, given),
        };
        let (log, left) = least_of(|log| left(least + log.exp()), 1e-6_f64.ln(), MOST.ln());
        (least + log.exp(), left)
    }

    fn best(&self) -> Best {
        let (log, left) = least_of(
            |log| self.rest(Which::Contention, log.exp() - 1.0).1,
            1e-3_f64.ln(),
            MOST.ln(),
        );
        let sigma = log.exp() - 1.0;
        Best {
            sigma,
            kappa: self.rest(Which::Contention, sigma).0,
            left,
        }
    }

    /// The best where neither is negative: on the border if the best of all is beyond it.
    fn best_not_negative(&self, best: Best) -> Best {
        if best.sigma >= 0.0 && best.kappa >= 0.0 {
            return best;
        }
        let sigma = self.rest(Which::Coherence, 0.0).0.max(0.0);
        let kappa = self.rest(Which::Contention, 0.0).0.max(0.0);
        let at = |sigma, kappa| Best {
            sigma,
            kappa,
            left: self.left(sigma, kappa),
        };
        let (one, other) = (at(sigma, 0.0), at(0.0, kappa));
        if one.left <= other.left { one } else { other }
    }

    /// All values of a term at which no more than this is left.
    fn interval(&self, which: Which, best: f64, allowed: f64) -> (f64, f64) {
        let fits = |value: f64| self.rest(which, value).1 <= allowed;
        let end = |direction: f64, limit: f64| -> f64 {
            let mut inside = best;
            let mut step = 1e-4 * (1.0 + best.abs());
            loop {
                let next = best + direction * step;
                if direction * (next - limit) >= 0.0 {
                    return if direction > 0.0 {
                        f64::INFINITY
                    } else {
                        limit
                    };
                }
                if !fits(next) {
                    return border(fits, inside, next);
                }
                inside = next;
                step *= 2.0;
            }
        };
        (end(-1.0, -1.0), end(1.0, MOST))
    }
}

/// Where it stops to hold, between a place where it does and one where it does not.
fn border(holds: impl Fn(f64) -> bool, mut inside: f64, mut outside: f64) -> f64 {
    for _ in 0..BISECTIONS {
        let middle = f64::midpoint(inside, outside);
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

/// The least value of a function with one valley, and where it is: J. Kiefer, "Sequential Minimax Search for a Maximum",
/// Proceedings of the AMS 4 (1953).
fn least_of(f: impl Fn(f64) -> f64, low: f64, high: f64) -> (f64, f64) {
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let (mut low, mut high) = (low, high);
    let mut a = high - GOLDEN * (high - low);
    let mut b = low + GOLDEN * (high - low);
    let (mut at_a, mut at_b) = (f(a), f(b));
    while high - low > CLOSE {
        if at_a <= at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - GOLDEN * (high - low);
            at_a = f(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + GOLDEN * (high - low);
            at_b = f(b);
        }
    }
    if at_a <= at_b { (a, at_a) } else { (b, at_b) }
}
