//! What the rounds say: speed-ups with intervals, and one verdict in words.
//!
//! Every two points that fit the processors are a pair, whose log ratios within rounds give an interval by the signed-rank
//! test. Each spends its part of the permitted error, so all that is said is true together with 95 %: however the slower
//! point was chosen, "slower" is wrong in at most 5 % of experiments.

use super::points::{Threads, error_of_a_pair, rounds_needed};
use super::rounds::{NoValue, Point, Rounds};
use super::usl::{Fit, NoFit};
use crate::judge::Better;
use crate::median::middle;
use crate::metric::Metric;
use crate::ratio::{LogRatio, Range};
use crate::signed_rank::Walsh;

/// What a run does with more threads, if it is measured by time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// All runs do the same work: with more threads, it should take less time.
    Fixed,
    /// Each thread does the same work: with more threads, it should take the same time.
    PerThread,
}

/// What the metric means for throughput.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// It is the throughput of all threads together.
    Throughput,
    /// It is a time; of what work, the user says or does not.
    Time(Option<Work>),
}

impl Meaning {
    /// What a metric means; `None` of processor time and memory, which are no throughput.
    #[must_use]
    pub fn of(metric: &Metric, better: Better, work: Option<Work>) -> Option<Self> {
        match (metric, better) {
            (Metric::Cpu | Metric::MaxRss, _) | (Metric::Wall, Better::Higher) => None,
            (Metric::Printed(_) | Metric::Json(_), Better::Higher) => Some(Self::Throughput),
            (Metric::Wall | Metric::Printed(_) | Metric::Json(_), Better::Lower) => {
                Some(Self::Time(work))
            }
        }
    }

    /// The throughput that a value is, where a time whose work was not said is read as that of fixed work.
    #[must_use]
    pub fn throughput(self, value: f64, threads: Threads) -> f64 {
        match self {
            Self::Throughput => value,
            Self::Time(None | Some(Work::Fixed)) => 1.0 / value,
            Self::Time(Some(Work::PerThread)) => f64::from(threads.0) / value,
        }
    }
}

/// What the rounds say.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// What the values mean.
    pub meaning: Meaning,
    /// The points that have a run that counts.
    pub points: Vec<PointEstimate>,
    /// The scalability law.
    pub fit: Result<Fit, NoFit>,
    /// Smaller losses do not count.
    pub floor: LogRatio,
    /// Rounds that an interval needs with so many points.
    pub rounds_needed: usize,
    /// In words.
    pub verdict: Verdict,
}

/// What is known of a point.
#[derive(Clone, PartialEq, Debug)]
pub struct PointEstimate {
    /// With so many threads.
    pub threads: Threads,
    /// There are fewer processors: the threads take turns.
    pub time_sliced: bool,
    /// Runs that count.
    pub runs: usize,
    /// The median of the metric.
    pub median: f64,
    /// The median of the throughput.
    pub throughput: f64,
    /// Throughput by that of the first point: the median of the averages of all pairs of log ratios. `None` at the first
    /// point.
    pub speed_up: Option<LogRatio>,
    /// Where it is, with 95 % for all points together.
    pub interval: Option<Range>,
    /// Processors used on average, the median.
    pub overlap: f64,
    /// Whether its threads ran at the same time.
    pub side_by_side: SideBySide,
}

impl PointEstimate {
    /// The speed-up by what the threads could give, if the first point has so many.
    #[must_use]
    pub fn efficiency(&self, first: Threads) -> Option<LogRatio> {
        let ideal = f64::from(self.threads.0) / f64::from(first.0);
        Some(LogRatio::from_ln(self.speed_up?.ln() - ideal.ln()))
    }

    /// Where that is.
    #[must_use]
    pub fn efficiency_interval(&self, first: Threads) -> Option<Range> {
        let ideal = (f64::from(self.threads.0) / f64::from(first.0)).ln();
        let less = |end: LogRatio| LogRatio::from_ln(end.ln() - ideal);
        self.interval.map(|interval| Range {
            low: less(interval.low),
            high: less(interval.high),
        })
    }
}

/// Whether threads ran at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SideBySide {
    /// One thread, or threads that had the processors when they wanted them.
    Yes,
    /// They were never seen to: together they used hardly more than one processor.
    No,
    /// They used less than theirs, and whether they waited for processors the kernel does not tell.
    Untold,
}

/// The verdict.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// At every point, each thread gives at least 90 % of what one alone does.
    Linear,
    /// At the last point, it gives less.
    SubLinear {
        /// From this point on, more threads were shown to give less than 5 % more.
        saturates: Option<Threads>,
    },
    /// More threads are slower.
    Negative {
        /// The slower point.
        slow: Threads,
        /// The faster one, with fewer threads.
        fast: Threads,
        /// By how much.
        effect: LogRatio,
        /// Where that is.
        interval: Range,
    },
    /// It is not known.
    Undecided {
        /// About so many more rounds would tell at this noise; `None` if more than is worth it.
        more_rounds: Option<usize>,
    },
    /// It depends on what the times are of, which was not said.
    SayWork(Box<Unsaid>),
    /// Nothing can be said.
    None(NoVerdict),
}

/// Both readings of times whose work was not said.
#[derive(Clone, PartialEq, Debug)]
pub struct Unsaid {
    /// If all runs do the same work.
    pub fixed: Verdict,
    /// If each thread does.
    pub per_thread: Verdict,
}

/// Why nothing can be said.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum NoVerdict {
    /// Fewer than two points fit the processors and have values.
    TooFewPoints,
    /// Where there are several threads, they did not run at the same time.
    NotSideBySide {
        /// The first such point.
        threads: Threads,
        /// Processors that it used.
        used: f64,
        /// Whether that is known; else the kernel does not tell why.
        told: bool,
    },
}

/// From this part of a thread alone on, a thread's work is as good as all of it.
const LINEAR: f64 = 0.9;
/// Gains below it are none worth a thread.
const SATURATED: f64 = 1.05;
/// More rounds than this nobody waits for.
const MOST_ROUNDS: f64 = 1000.0;
/// Threads that use less than this beyond the first one's processor, each, do not run at the same time.
const LEAST_BESIDE: f64 = 0.1;
/// Where waiting is not told, threads must use so much of their processors.
const LEAST_UNTOLD: f64 = 0.75;

/// Judges what was measured.
#[must_use]
pub fn judge<F>(rounds: &Rounds<F>, meaning: Meaning, floor: LogRatio) -> Judgement {
    let planned = rounds.plan.fitting().count();
    let view = View {
        rounds,
        meaning,
        error: error_of_a_pair(planned),
        floor,
        needed: rounds_needed(planned),
    };
    let points: Vec<PointEstimate> = (0..rounds.points.len())
        .filter_map(|at| view.point(at))
        .collect();
    let judged =
        |point: &&PointEstimate| !point.time_sliced && point.side_by_side == SideBySide::Yes;
    let judged: Vec<usize> = points
        .iter()
        .filter(judged)
        .filter_map(|point| view.index(point.threads))
        .collect();
    let verdict = match nothing_to_say(&points, &judged) {
        Some(why) => Verdict::None(why),
        None => view.verdict(&judged),
    };
    Judgement {
        fit: view.fit(&judged),
        meaning,
        points,
        floor,
        rounds_needed: view.needed,
        verdict,
    }
}

fn nothing_to_say(points: &[PointEstimate], judged: &[usize]) -> Option<NoVerdict> {
    if judged.len() >= 2 && judged.first() == Some(&0) {
        return None;
    }
    let apart = points
        .iter()
        .find(|point| !point.time_sliced && point.side_by_side != SideBySide::Yes);
    Some(match apart {
        Some(point) => NoVerdict::NotSideBySide {
            threads: point.threads,
            used: point.overlap,
            told: point.side_by_side == SideBySide::No,
        },
        None => NoVerdict::TooFewPoints,
    })
}

/// The rounds, as they are read.
struct View<'a, F> {
    rounds: &'a Rounds<F>,
    meaning: Meaning,
    /// That an interval may spend.
    error: f64,
    floor: LogRatio,
    needed: usize,
}

impl<F> View<'_, F> {
    fn threads(&self, at: usize) -> Threads {
        self.rounds.points[at].threads
    }

    fn index(&self, threads: Threads) -> Option<usize> {
        let points = &self.rounds.points;
        points.iter().position(|point| point.threads == threads)
    }

    fn point(&self, at: usize) -> Option<PointEstimate> {
        let point = &self.rounds.points[at];
        let runs = point.counted().count();
        let value = middle(point.counted().map(|run| run.trial.value))?;
        let walsh = (at > 0).then(|| self.walsh(0, at, self.meaning));
        let overlap = middle(point.counted().map(|run| run.trial.health.overlap())).unwrap_or(0.0);
        Some(PointEstimate {
            threads: point.threads,
            time_sliced: !self.rounds.plan.fits(point.threads),
            runs,
            median: value,
            throughput: self.meaning.throughput(value, point.threads),
            speed_up: walsh.as_ref().and_then(Walsh::estimate),
            interval: walsh.as_ref().map(|walsh| walsh.interval(self.error)),
            overlap,
            side_by_side: side_by_side(point, overlap),
        })
    }

    /// Throughput of one point by that of another, round by round.
    fn walsh(&self, from: usize, to: usize, meaning: Meaning) -> Walsh {
        let ratios: Vec<LogRatio> = self
            .rounds
            .pairs(from, to)
            .into_iter()
            .filter_map(|(a, b)| {
                LogRatio::of(
                    meaning.throughput(a, self.threads(from)),
                    meaning.throughput(b, self.threads(to)),
                )
            })
            .collect();
        Walsh::of(&ratios)
    }

    /// Of a time whose work was not said, what is true whatever it is.
    fn verdict(&self, judged: &[usize]) -> Verdict {
        let Meaning::Time(None) = self.meaning else {
            return self.by(judged, self.meaning);
        };
        let fixed = self.by(judged, Meaning::Time(Some(Work::Fixed)));
        let per_thread = self.by(judged, Meaning::Time(Some(Work::PerThread)));
        match (&fixed, &per_thread) {
            // Slower although each thread's work is counted is all the slower if it is not.
            (Verdict::Negative { .. }, Verdict::Negative { slow, fast, .. }) => self
                .index(*fast)
                .zip(self.index(*slow))
                .and_then(|(fast, slow)| self.slower(fast, slow, Meaning::Time(Some(Work::Fixed))))
                .unwrap_or(fixed),
            // The stricter of the two says the same.
            (Verdict::Linear, Verdict::Linear)
            | (Verdict::Undecided { .. }, Verdict::Undecided { .. }) => fixed,
            (Verdict::SubLinear { .. }, Verdict::SubLinear { .. }) => per_thread,
            _ => Verdict::SayWork(Box::new(Unsaid { fixed, per_thread })),
        }
    }

    fn by(&self, judged: &[usize], meaning: Meaning) -> Verdict {
        if let Some(negative) = self.slowest(judged, meaning) {
            return negative;
        }
        let Some((&last, before)) = judged.split_last() else {
            return Verdict::None(NoVerdict::TooFewPoints);
        };
        let efficiency = |at: usize| {
            let walsh = self.walsh(0, at, meaning);
            let ideal = f64::from(self.threads(at).0) / f64::from(self.threads(0).0);
            let line = (LINEAR * ideal).ln();
            (walsh.estimate(), walsh.interval(self.error), line)
        };
        let (estimate, interval, line) = efficiency(last);
        let is_linear = |at: &usize| {
            let (_, interval, line) = efficiency(*at);
            interval.low.ln() >= line
        };
        if judged[1..].iter().all(is_linear) {
            return Verdict::Linear;
        }
        if interval.high.ln() < line {
            let gains_little = |from: &&usize| {
                let gain = self.walsh(**from, last, meaning).interval(self.error);
                gain.high.ln() < SATURATED.ln()
            };
            let saturates = before.iter().find(gains_little);
            return Verdict::SubLinear {
                saturates: saturates.map(|at| self.threads(*at)),
            };
        }
        let distance = estimate.map_or(0.0, |estimate| (estimate.ln() - line).abs());
        Verdict::Undecided {
            more_rounds: self.more_rounds(interval, distance, self.rounds.pairs(0, last).len()),
        }
    }

    /// The pair with the greatest loss among those that are shown to have one.
    fn slowest(&self, judged: &[usize], meaning: Meaning) -> Option<Verdict> {
        let pairs = judged
            .iter()
            .enumerate()
            .flat_map(|(i, slow)| judged[..i].iter().map(move |fast| (*fast, *slow)));
        let loss = |verdict: &Verdict| match verdict {
            Verdict::Negative { effect, .. } => effect.ln(),
            _ => 0.0,
        };
        pairs
            .filter_map(|(fast, slow)| self.slower(fast, slow, meaning))
            .min_by(|a, b| loss(a).total_cmp(&loss(b)))
    }

    /// Whether a point is shown to be slower than one with fewer threads, by at least the floor.
    fn slower(&self, fast: usize, slow: usize, meaning: Meaning) -> Option<Verdict> {
        let walsh = self.walsh(fast, slow, meaning);
        let (effect, interval) = (walsh.estimate()?, walsh.interval(self.error));
        let slower = interval.high.ln() < 0.0 && effect.ln() <= -self.floor.ln();
        slower.then(|| Verdict::Negative {
            slow: self.threads(slow),
            fast: self.threads(fast),
            effect,
            interval,
        })
    }

    /// Rounds after which an interval, narrower with their square root, would no longer reach so far.
    fn more_rounds(&self, interval: Range, distance: f64, rounds: usize) -> Option<usize> {
        let half = interval.half_width().ln();
        if !half.is_finite() {
            return Some(self.needed.saturating_sub(rounds).max(1));
        }
        let rounds = rounds as f64;
        let wanted = rounds * (half / distance).powi(2) - rounds;
        (wanted <= MOST_ROUNDS).then(|| wanted.ceil().max(1.0) as usize)
    }

    fn fit(&self, judged: &[usize]) -> Result<Fit, NoFit> {
        if judged.len() < super::usl::LEAST_POINTS {
            return Err(NoFit::TooFewPoints {
                points: judged.len(),
            });
        }
        if self.meaning == Meaning::Time(None) {
            return Err(NoFit::WorkNotSaid);
        }
        let run = |at: usize, round: usize| {
            let point = &self.rounds.points[at];
            Some(
                self.meaning
                    .throughput(point.value_in(round)?, point.threads),
            )
        };
        let whole: Vec<usize> = (0..self.rounds.plan.rounds)
            .filter(|round| judged.iter().all(|at| run(*at, *round).is_some()))
            .collect();
        let points: Vec<(Threads, Vec<f64>)> = judged
            .iter()
            .map(|at| {
                let values = whole.iter().filter_map(|round| run(*at, *round)).collect();
                (self.threads(*at), values)
            })
            .collect();
        Fit::of(&points)
    }
}

fn side_by_side<F>(point: &Point<F>, used: f64) -> SideBySide {
    let threads = f64::from(point.threads.0);
    if point.threads.0 < 2 {
        return SideBySide::Yes;
    }
    if used < 1.0 + LEAST_BESIDE * (threads - 1.0) {
        return SideBySide::No;
    }
    let told = point.counted().all(|run| run.trial.health.queued.is_some());
    if told || used >= LEAST_UNTOLD * threads {
        SideBySide::Yes
    } else {
        SideBySide::Untold
    }
}

impl<F> Rounds<F> {
    /// The slowest point with several threads and a processor for each, to look at more closely.
    #[must_use]
    pub fn slowest(&self, judgement: &Judgement) -> Option<Threads> {
        if let Verdict::Negative { slow, .. } = judgement.verdict {
            return Some(slow);
        }
        let fits = |point: &&PointEstimate| !point.time_sliced && point.threads.0 >= 2;
        let efficiency = |point: &PointEstimate| {
            let first = self.plan.points.first().copied();
            let efficiency = first.and_then(|first| point.efficiency(first));
            efficiency.map_or(0.0, LogRatio::ln)
        };
        let fitting = judgement.points.iter().filter(fits);
        let least = fitting.min_by(|a, b| efficiency(a).total_cmp(&efficiency(b)));
        least.map(|point| point.threads)
    }

    /// Points that failed, and why.
    pub fn failures(&self) -> impl Iterator<Item = (Threads, &NoValue<F>)> {
        self.points
            .iter()
            .filter_map(|point| Some((point.threads, point.failure.as_ref()?)))
    }
}
