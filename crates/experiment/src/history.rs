//! What was saved of earlier comparisons, as series over commits.

use crate::changes::{Detected, detect};
use crate::judge::Better;
use crate::ratio::LogRatio;

/// Changes below it are not worth a word.
const FLOOR_PERCENT: f64 = 1.0;

/// Everything that was asked for.
#[derive(Clone, PartialEq, Debug)]
pub struct History {
    /// The series, by machine and name.
    pub series: Vec<Series>,
}

/// What may be compared over time: the same row, measured in the same way by the same command on the same machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct SeriesKey {
    /// The machine.
    pub machine: String,
    /// The row's name.
    pub row: String,
    /// Its metric.
    pub metric: String,
    /// Its unit, empty for a number that a program prints.
    pub unit: String,
    /// B's command, its program by file name; its server and its variables.
    pub command: String,
}

/// One saved row.
#[derive(Clone, PartialEq, Debug)]
pub struct Point {
    /// When it was saved, as `YYYY-MM-DD HH:MM` in UTC.
    pub saved: String,
    /// The commit of B, where git knew it.
    pub commit: Option<String>,
    /// Whether files differed from it.
    pub dirty: bool,
    /// The median of B's runs.
    pub value: f64,
    /// B over A, by the pairs.
    pub effect: LogRatio,
    /// The hash of A's program: the base that B was compared with.
    pub base: String,
    /// The outcome, in a word.
    pub outcome: String,
}

/// A series and what it says.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// What it is of.
    pub key: SeriesKey,
    /// Which values are good.
    pub better: Better,
    /// Its points, the oldest first.
    pub points: Vec<Point>,
    /// What of the points is looked at.
    pub measure: Measure,
    /// Its changes.
    pub detected: Detected,
}

/// What of the points is looked at for changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// B over A: all points have the same A, so that what the machine does to both cancels out.
    AgainstBase,
    /// B's own median: the bases differ.
    Own,
}

impl History {
    /// Puts points into series, and looks at all of them together.
    #[must_use]
    pub fn of(series: Vec<(SeriesKey, Better, Vec<Point>)>) -> Self {
        let measured: Vec<(Measure, Vec<LogRatio>)> = series
            .iter()
            .map(|(_, _, points)| {
                let measure = Measure::of(points);
                (measure, measure.values(points))
            })
            .collect();
        let values: Vec<Vec<LogRatio>> =
            measured.iter().map(|(_, values)| values.clone()).collect();
        let detected = detect(&values, LogRatio::from_percent(FLOOR_PERCENT));
        let series = series
            .into_iter()
            .zip(measured.into_iter().zip(detected))
            .map(|((key, better, points), ((measure, _), detected))| Series {
                key,
                better,
                points,
                measure,
                detected,
            })
            .collect();
        Self { series }
    }
}

impl Series {
    /// What is looked at, point by point.
    #[must_use]
    pub fn values(&self) -> Vec<LogRatio> {
        self.measure.values(&self.points)
    }
}

impl Measure {
    fn of(points: &[Point]) -> Self {
        let first = points.first().map(|point| &point.base);
        let same = |point: &Point| Some(&point.base) == first && !point.base.is_empty();
        if points.iter().all(same) {
            Self::AgainstBase
        } else {
            Self::Own
        }
    }

    fn values(self, points: &[Point]) -> Vec<LogRatio> {
        let value = |point: &Point| match self {
            Self::AgainstBase => point.effect,
            Self::Own => LogRatio::from_ln(point.value.ln()),
        };
        points.iter().map(value).collect()
    }
}
