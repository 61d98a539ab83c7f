//! Whether something that moves tells how far a thread got, and how much faster it moved together than apart.
//!
//! A *step* is what a measure moved from one look at it to the next. A measure is good if it goes one way, at about the
//! same speed in all steps of a placement, in all windows of that placement, and stands still while its thread does not
//! run. What fails any of this is unfit, and says why: no number is better than a wrong one.

use hitm_model::{Interval, Nanos, Placement};

use super::interval::{Mean, floor, ratio};

/// Windows of each placement that are needed.
pub(super) const LEAST_WINDOWS: usize = 3;

/// Steps of each placement that must count in all, and in each window.
const LEAST_STEPS: usize = 30;
const LEAST_STEPS_OF_WINDOW: usize = 4;

/// The same for what is read a few times in a window: each step of it is an average over a longer time.
const LEAST_READINGS: usize = 12;

/// The part of a placement's time whose steps must be steady, from 0 to 1.
const STEADY_PART: f64 = 0.8;

/// A step is steady if its speed is within this factor of the median.
const STEADY_WITHIN: f64 = 2.5;

/// The speeds of windows of one placement may differ by so much: the standard deviation of their logarithms.
const WINDOWS_WITHIN: f64 = 0.35;

/// A measure whose steps are further than this from their median in the middle tells little.
const MOST_DISPERSION: f64 = 0.45;

/// A clock moves with time, whoever runs: the speeds by the wall clock differ by less than this in all windows.
const CLOCK_WITHIN: f64 = 0.01;

/// Steps over a time in which the thread did not run may not be faster than the others by more than this.
const STANDS_STILL_WITHIN: f64 = 1.4;

/// From one look at a measure to the next.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// How far it moved, in its own unit.
    pub moved: f64,
    /// Processor time that its thread used.
    pub ran: Nanos,
    /// Time that went by.
    pub wall: Nanos,
}

impl Step {
    fn speed(&self) -> f64 {
        self.moved / self.ran.0.max(1) as f64
    }

    fn off(&self) -> u64 {
        self.wall.0.saturating_sub(self.ran.0)
    }
}

/// The steps of one window.
#[derive(Clone, PartialEq, Debug)]
pub struct WindowSteps {
    /// Where the threads were.
    pub placement: Placement,
    /// In order of time.
    pub steps: Vec<Step>,
}

/// Why a measure tells nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// There are too few windows in which it was seen often enough.
    TooFewWindows,
    /// It was not seen often enough.
    TooFewSteps,
    /// It does not move, or not in one direction.
    NoDirection,
    /// It jumps: it wraps, or is something else at times.
    Unsteady,
    /// Windows of one placement do not agree: the program changes.
    WindowsDiffer,
    /// It moves while its thread does not run: a clock, or what others move.
    NotItsOwn,
}

impl Unfit {
    /// A clause with the measure as `it`.
    #[must_use]
    pub const fn clause(self) -> &'static str {
        match self {
            Self::TooFewWindows => "it could be read in too few windows",
            Self::TooFewSteps => "it was seen too seldom",
            Self::NoDirection => "it does not move, or not in one direction",
            Self::Unsteady => "it does not move steadily",
            Self::WindowsDiffer => "it moves at different speeds in windows of one kind",
            Self::NotItsOwn => "it moves while the thread does not run",
        }
    }
}

/// What a good measure says.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Assessment {
    /// Speed together over speed apart.
    pub ratio: Interval,
    /// How far windows apart differ among themselves, as a factor of at least 1.
    pub floor: f64,
    /// The median distance of steps from their median speed, as a part of it; the larger of the placements'.
    pub dispersion: f64,
    /// Steps seen.
    pub steps: u64,
    /// Steps that count.
    pub steady: u64,
    /// The processor time that they are over, apart and together.
    pub steady_time: [Nanos; 2],
    /// The part of all steps' time that is, from 0 to 1: of the placement with less.
    pub steady_part: f64,
    /// The way it goes: 1 or -1.
    pub direction: f64,
    /// The mean speed apart, per nanosecond of processor time.
    pub speed_apart: f64,
}

/// How the steps of a measure come about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// At samples: many short steps.
    Sampled,
    /// At readings: a few long ones.
    Read,
}

/// Judges a measure by the windows that count.
///
/// # Errors
/// If it tells nothing.
pub fn assess(windows: &[WindowSteps], look: Look) -> Result<Assessment, Unfit> {
    let least_of_window = match look {
        Look::Sampled => LEAST_STEPS_OF_WINDOW,
        Look::Read => 2,
    };
    let of = |placement| -> Vec<&[Step]> {
        windows
            .iter()
            .filter(|window| window.placement == placement)
            .map(|window| window.steps.as_slice())
            .filter(|steps| steps.len() >= least_of_window)
            .collect()
    };
    let (apart, together) = (of(Placement::Apart), of(Placement::Together));
    if apart.len().min(together.len()) < LEAST_WINDOWS {
        return Err(Unfit::TooFewWindows);
    }
    let direction = direction(apart.iter().chain(&together).flat_map(|steps| *steps))?;
    let least = match look {
        Look::Sampled => LEAST_STEPS,
        Look::Read => LEAST_READINGS,
    };
    let speeds_apart = Speeds::of(&apart, direction, least)?;
    let speeds_together = Speeds::of(&together, direction, least)?;
    if moves_alone(&together, direction) || is_clock(&apart, &together) {
        return Err(Unfit::NotItsOwn);
    }
    let (a, t) = (speeds_apart.mean()?, speeds_together.mean()?);
    Ok(Assessment {
        ratio: ratio(&t, &a),
        floor: floor(&a),
        dispersion: speeds_apart.dispersion.max(speeds_together.dispersion),
        steps: speeds_apart.steps + speeds_together.steps,
        steady: speeds_apart.steady + speeds_together.steady,
        steady_time: [speeds_apart.steady_time, speeds_together.steady_time],
        steady_part: speeds_apart.steady_part.min(speeds_together.steady_part),
        direction,
        speed_apart: a.value.exp(),
    })
}

/// The way that four steps of five go.
fn direction<'s>(steps: impl Iterator<Item = &'s Step>) -> Result<f64, Unfit> {
    let (mut up, mut down, mut all) = (0usize, 0usize, 0usize);
    for step in steps {
        all += 1;
        up += usize::from(step.moved > 0.0);
        down += usize::from(step.moved < 0.0);
    }
    match (up * 5 >= all * 4, down * 5 >= all * 4) {
        (true, false) => Ok(1.0),
        (false, true) => Ok(-1.0),
        _ => Err(Unfit::NoDirection),
    }
}

/// The speeds of a placement.
struct Speeds {
    /// Of each window, the logarithm.
    of_windows: Vec<f64>,
    dispersion: f64,
    steps: u64,
    steady: u64,
    steady_time: Nanos,
    steady_part: f64,
}

impl Speeds {
    fn of(windows: &[&[Step]], direction: f64, least: usize) -> Result<Self, Unfit> {
        let all = || windows.iter().flat_map(|steps| *steps);
        let speed = |step: &Step| step.speed() * direction;
        let median = median_by_time(all().map(|step| (speed(step), step.ran.0)));
        let Some(median) = median.filter(|median| *median > 0.0) else {
            return Err(Unfit::NoDirection);
        };
        let is_steady = |step: &&Step| {
            let speed = speed(step);
            speed * STEADY_WITHIN >= median && speed <= median * STEADY_WITHIN
        };
        let time =
            |steps: &mut dyn Iterator<Item = &Step>| steps.map(|step| step.ran.0).sum::<u64>();
        let steady = all().filter(is_steady).count();
        if steady < least {
            return Err(Unfit::TooFewSteps);
        }
        let steady_time = time(&mut all().filter(is_steady));
        let part = steady_time as f64 / time(&mut all()).max(1) as f64;
        let dispersion =
            median_by_time(all().map(|step| ((speed(step) / median - 1.0).abs(), step.ran.0)));
        let dispersion = dispersion.unwrap_or(f64::INFINITY);
        if part < STEADY_PART || dispersion > MOST_DISPERSION {
            return Err(Unfit::Unsteady);
        }
        let of_windows = windows.iter().filter_map(|steps| {
            let steady = || steps.iter().filter(is_steady);
            let moved: f64 = steady().map(|step| step.moved * direction).sum();
            let ran = time(&mut steady());
            (moved > 0.0 && ran > 0).then(|| (moved / ran as f64).ln())
        });
        Ok(Self {
            of_windows: of_windows.collect(),
            dispersion,
            steps: all().count() as u64,
            steady: steady as u64,
            steady_time: Nanos(steady_time),
            steady_part: part,
        })
    }

    fn mean(&self) -> Result<Mean, Unfit> {
        if self.of_windows.len() < LEAST_WINDOWS {
            return Err(Unfit::TooFewWindows);
        }
        let mean = Mean::of(&self.of_windows).ok_or(Unfit::TooFewWindows)?;
        if mean.variance.sqrt() > WINDOWS_WITHIN {
            return Err(Unfit::WindowsDiffer);
        }
        Ok(mean)
    }
}

/// Whether it moves on while its thread does not run, as what others move does.
fn moves_alone(together: &[&[Step]], direction: f64) -> bool {
    const ENOUGH: usize = 8;
    let speeds = |wanted: &dyn Fn(&Step) -> bool| -> Vec<f64> {
        let steps = together.iter().flat_map(|steps| *steps);
        steps
            .filter(|step| wanted(step))
            .map(|step| step.speed() * direction)
            .collect()
    };
    let ran_through = speeds(&|step| step.off() * 4 < step.ran.0);
    let ran_in_part = speeds(&|step| step.off() > step.ran.0);
    if ran_through.len().min(ran_in_part.len()) < ENOUGH {
        return false;
    }
    match (median(ran_through), median(ran_in_part)) {
        (Some(through), Some(in_part)) => in_part > through * STANDS_STILL_WITHIN,
        _ => false,
    }
}

/// Whether it goes with the time, and so exactly that its speed by the wall clock is the same in all windows.
fn is_clock(apart: &[&[Step]], together: &[&[Step]]) -> bool {
    let speeds: Vec<f64> = apart
        .iter()
        .chain(together)
        .map(|steps| {
            let moved: f64 = steps.iter().map(|step| step.moved).sum();
            let wall: u64 = steps.iter().map(|step| step.wall.0).sum();
            moved / wall.max(1) as f64
        })
        .collect();
    let Some(middle) = median(speeds.clone()) else {
        return false;
    };
    speeds
        .iter()
        .all(|speed| (speed / middle - 1.0).abs() < CLOCK_WITHIN)
        // Threads that are always alone on their processors have the same time by both clocks.
        && together
            .iter()
            .flat_map(|steps| *steps)
            .any(|step| step.off() > step.ran.0 / 4)
}

fn median(numbers: Vec<f64>) -> Option<f64> {
    median_by_time(numbers.into_iter().map(|number| (number, 1)))
}

/// The number that half of the weight is below.
fn median_by_time(numbers: impl Iterator<Item = (f64, u64)>) -> Option<f64> {
    let mut numbers: Vec<(f64, u64)> = numbers.collect();
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all: u64 = numbers.iter().map(|(_, weight)| weight).sum();
    let mut below = 0;
    let middle = numbers.iter().find(|(_, weight)| {
        below += weight;
        below * 2 >= all
    });
    middle.map(|(number, _)| *number)
}
