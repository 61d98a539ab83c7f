//! Registers as measures of progress: induction variables, found by looking.
//!
//! At one instruction, or throughout a function, a register that moves by about the same from sample to sample is one.
//! A thread's processor time between two of its samples is the number of periods between them: the sampling clock runs
//! only while the thread does.

use hitm_model::{Avma, Nanos, Placement, Register, Sample};
use rustc_hash::FxHashMap;

use super::steps::{Assessment, Look, Step, WindowSteps, assess};

/// Steps over more periods than this are not used: too much may have happened in between.
const LONGEST_STEP: usize = 48;

/// The steady steps must be over this part of the thread's processor time, in either placement. A measure speaks only for
/// the time that it was seen to move in: a loop that runs a fifth of the time says nothing of the rest.
const LEAST_COVERAGE: f64 = 0.6;

/// A place with a smaller part of the thread's samples cannot reach that.
const LEAST_SAMPLES: f64 = 1.0 / LONGEST_STEP as f64;

/// Where a register is looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Place {
    /// At this instruction.
    Instruction(Avma),
    /// Throughout the function that starts here.
    Function(Avma),
}

/// A register that tells how far a thread got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) register: Register,
    pub(super) place: Place,
    /// The most frequent instruction of the place.
    pub(super) at: Avma,
    /// The part of the thread's processor time that its steady steps are over, from 0 to 1: of the placement with less.
    pub(super) coverage: f64,
    pub(super) assessment: Assessment,
}

/// A thread's samples in one window that counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadWindow<'s> {
    pub(super) placement: Placement,
    pub(super) samples: &'s [Sample],
}

/// All registers that tell how far a thread got, the most reliable first. `function_of` says where the function of an
/// instruction starts; only places that `wanted` wants are looked at.
pub(super) fn candidates(
    windows: &[ThreadWindow<'_>],
    period: Nanos,
    function_of: &dyn Fn(Avma) -> Option<Avma>,
    wanted: &dyn Fn(Avma) -> bool,
) -> Vec<Candidate> {
    let all: usize = windows.iter().map(|window| window.samples.len()).sum();
    let mut counts: FxHashMap<Avma, usize> = FxHashMap::default();
    for sample in windows.iter().flat_map(|window| window.samples) {
        if wanted(sample.registers.ip) {
            *counts.entry(sample.registers.ip).or_default() += 1;
        }
    }
    let mut places: FxHashMap<Place, (usize, Avma, usize)> = FxHashMap::default();
    for (&ip, &count) in &counts {
        let function = function_of(ip).map(Place::Function);
        for place in [Some(Place::Instruction(ip)), function]
            .into_iter()
            .flatten()
        {
            let known = places.entry(place).or_insert((0, ip, 0));
            known.0 += count;
            if (count, std::cmp::Reverse(ip)) > (known.2, std::cmp::Reverse(known.1)) {
                (known.1, known.2) = (ip, count);
            }
        }
    }
    let mut places: Vec<_> = places.into_iter().collect();
    places.sort_unstable();
    let mut found = Vec::new();
    for (place, (samples, at, _)) in places {
        if (samples as f64) < LEAST_SAMPLES * all as f64 {
            continue;
        }
        let is_there = |ip: Avma| match place {
            Place::Instruction(at) => ip == at,
            Place::Function(start) => counts.contains_key(&ip) && function_of(ip) == Some(start),
        };
        for register in Register::ALL {
            if register == Register::Rsp {
                continue;
            }
            let steps: Vec<WindowSteps> = windows
                .iter()
                .map(|window| WindowSteps {
                    placement: window.placement,
                    steps: steps_of(window.samples, register, period, &is_there),
                })
                .collect();
            let Ok(assessment) = assess(&steps, Look::Sampled) else {
                continue;
            };
            let coverage = coverage(windows, &assessment, period);
            if coverage >= LEAST_COVERAGE {
                found.push(Candidate {
                    register,
                    place,
                    at,
                    coverage,
                    assessment,
                });
            }
        }
    }
    found.sort_by(|a, b| b.reliability().total_cmp(&a.reliability()));
    found
}

impl Candidate {
    /// More steady steps and less dispersion are better, and one instruction is surer than a whole function.
    fn reliability(&self) -> f64 {
        let assessment = &self.assessment;
        let width = (assessment.ratio.high / assessment.ratio.low).max(1.0).ln();
        let sure = match self.place {
            Place::Instruction(_) => 1.0,
            Place::Function(_) => 0.9,
        };
        sure * (assessment.steady as f64).sqrt() / (0.05 + assessment.dispersion + width)
    }
}

/// See [`Candidate::coverage`].
fn coverage(windows: &[ThreadWindow<'_>], assessment: &Assessment, period: Nanos) -> f64 {
    let time = |placement| -> u64 {
        let windows = windows.iter().filter(|it| it.placement == placement);
        let periods = windows.map(|window| window.samples.len().saturating_sub(1) as u64);
        periods.sum::<u64>() * period.0
    };
    let [apart, together] = assessment.steady_time;
    let parts = [(apart, Placement::Apart), (together, Placement::Together)]
        .map(|(steady, placement)| steady.0 as f64 / time(placement).max(1) as f64);
    parts[0].min(parts[1]).min(1.0)
}

fn steps_of(
    samples: &[Sample],
    register: Register,
    period: Nanos,
    is_there: &dyn Fn(Avma) -> bool,
) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut last: Option<(usize, &Sample)> = None;
    for (index, sample) in samples.iter().enumerate() {
        if !is_there(sample.registers.ip) {
            continue;
        }
        if let Some((before, from)) = last
            && index - before <= LONGEST_STEP
        {
            let moved = sample
                .registers
                .get(register)
                .wrapping_sub(from.registers.get(register))
                .cast_signed();
            steps.push(Step {
                moved: moved as f64,
                ran: Nanos((index - before) as u64 * period.0),
                wall: sample.at.since(from.at),
            });
        }
        last = Some((index, sample));
    }
    steps
}
