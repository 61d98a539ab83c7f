//! From measured costs of the model to those of the document.

use hitm_model as model;
use hitm_model::{GroupOutcome, LineSize};

use super::convert::{all, finite};
use super::cost::{
    Baseline, Cause, CauseKind, CoLocated, CoreDistance, Cost, Judged, Measure, Measured, NoCost,
    Outcome, Progress, Split, ThreadCost, Waiting, WhyNoCost, WindowCounts,
};
use super::document::Hex;
use crate::causes::cause as cause_in_words;
use crate::measured::{self, Joined, judge};
use crate::refusals::refusal;

/// JSON has no infinity: the largest number says that an interval is open.
fn ratio(ratio: f64) -> f64 {
    if ratio == f64::INFINITY {
        f64::MAX
    } else {
        finite(ratio)
    }
}

/// Of the finding with the index `at`.
pub(super) fn measured(findings: &[model::Finding], at: usize) -> Option<Measured> {
    let measured = measured::measured(measured::groups(&findings[at]))?;
    Some(Measured {
        together_with: measured::companions(findings, at)
            .into_iter()
            .map(|other| findings[other].fingerprint.clone())
            .collect(),
        judged: Judged::from(measured.judged),
        ratio: ratio(measured.ratio.ratio),
        low: ratio(measured.ratio.low),
        high: ratio(measured.ratio.high),
    })
}

pub(super) fn co_located(
    group: &model::CoLocated,
    joined: Joined,
    line_size: LineSize,
) -> CoLocated {
    let (outcome, refused) = outcome(&group.outcome);
    CoLocated {
        threads: group
            .threads
            .iter()
            .map(|thread| thread_cost(thread, group, joined))
            .collect(),
        distance: CoreDistance::from(group.distance),
        cpus: group.cpus.clone(),
        window_ns: group.window.0,
        windows: WindowCounts {
            planned: group.windows.planned,
            apart: group.windows.apart,
            together: group.windows.together,
            dropped: group.windows.dropped,
        },
        outcome,
        refused,
        baseline: group.baseline.map(|baseline| Baseline {
            low: ratio(baseline.low),
            high: ratio(baseline.high),
        }),
        lost_ns: group.lost.0,
        part: group.part.map(finite),
        split: group.split.map(|split| Split {
            false_sharing: finite(split.false_sharing),
            true_sharing: finite(split.true_sharing),
        }),
        causes: group
            .causes
            .iter()
            .map(|cause| Cause {
                what: CauseKind::from(cause),
                text: cause_in_words(cause, line_size),
            })
            .collect(),
    }
}

fn outcome(outcome: &GroupOutcome) -> (Outcome, Option<String>) {
    match outcome {
        GroupOutcome::Complete => (Outcome::Complete, None),
        GroupOutcome::ThreadEnded => (Outcome::ThreadEnded, None),
        GroupOutcome::TimeOver => (Outcome::TimeOver, None),
        GroupOutcome::Interrupted => (Outcome::Interrupted, None),
        GroupOutcome::Refused(why) => (Outcome::Refused, Some(why.clone())),
    }
}

fn thread_cost(thread: &model::ThreadCost, group: &model::CoLocated, joined: Joined) -> ThreadCost {
    let no_cost = |why: &model::NoCost| NoCost {
        why: WhyNoCost::from(why),
        text: refusal(why, group, joined),
    };
    ThreadCost {
        name: thread.name.clone(),
        tid: thread.tid.map(|tid| tid.0),
        cost: thread.cost.as_ref().ok().map(Cost::from),
        no_cost: thread.cost.as_ref().err().map(no_cost),
    }
}

impl From<measured::Judged> for Judged {
    fn from(judged: measured::Judged) -> Self {
        match judged {
            measured::Judged::Nothing => Self::Nothing,
            measured::Judged::Slower => Self::Slower,
            measured::Judged::WithinNoise => Self::WithinNoise,
            measured::Judged::Costs => Self::Costs,
        }
    }
}

impl From<model::CoreDistance> for CoreDistance {
    fn from(distance: model::CoreDistance) -> Self {
        match distance {
            model::CoreDistance::SmtSiblings => Self::SmtSiblings,
            model::CoreDistance::SameCluster => Self::SameCluster,
            model::CoreDistance::SameCache => Self::SameCache,
            model::CoreDistance::SamePackage => Self::SamePackage,
            model::CoreDistance::OtherPackage => Self::OtherPackage,
            model::CoreDistance::Unknown => Self::Unknown,
        }
    }
}

impl From<&model::Cost> for Cost {
    fn from(cost: &model::Cost) -> Self {
        Self {
            ratio: ratio(cost.ratio.ratio),
            low: ratio(cost.ratio.low),
            high: ratio(cost.ratio.high),
            floor: ratio(cost.floor),
            judged: Judged::from(judge(cost)),
            measures: all(&cost.measures),
        }
    }
}

impl From<&model::Measure> for Measure {
    fn from(measure: &model::Measure) -> Self {
        Self {
            progress: Progress::from(&measure.progress),
            ratio: ratio(measure.ratio.ratio),
            low: ratio(measure.ratio.low),
            high: ratio(measure.ratio.high),
            per_second_apart: finite(measure.per_second_apart),
            coverage: finite(measure.coverage),
            dispersion: finite(measure.dispersion),
            steps: measure.steps,
            steady: measure.steady,
            named: measure.named.clone(),
        }
    }
}

impl From<&model::Progress> for Progress {
    fn from(progress: &model::Progress) -> Self {
        match progress {
            model::Progress::Register {
                register,
                binary,
                address,
                throughout,
                frames,
            } => Self::Register {
                register: register.to_string(),
                binary: binary.clone(),
                address: Hex(address.to_string()),
                throughout: *throughout,
                frames: all(frames),
            },
            model::Progress::Word { name, address } => Self::Word {
                name: name.clone(),
                address: Hex(address.to_string()),
            },
        }
    }
}

impl From<&model::NoCost> for WhyNoCost {
    fn from(why: &model::NoCost) -> Self {
        match why {
            model::NoCost::TheyWait(waiting) => Self::TheyWait {
                waiting: Waiting::from(waiting),
            },
            model::NoCost::NoMeasure => Self::NoMeasure,
            model::NoCost::NamedUnfit { name, .. } => Self::NamedUnfit { name: name.clone() },
            model::NoCost::MeasuresDisagree { low, high } => Self::MeasuresDisagree {
                lowest: ratio(*low),
                highest: ratio(*high),
            },
            model::NoCost::TooFewWindows { dropped, of } => Self::TooFewWindows {
                dropped: *dropped,
                of: *of,
            },
            model::NoCost::Ended { done, planned } => Self::Ended {
                done: *done,
                planned: *planned,
            },
            model::NoCost::Refused(_) => Self::Refused,
        }
    }
}

impl From<&model::Waiting> for Waiting {
    fn from(waiting: &model::Waiting) -> Self {
        match waiting {
            model::Waiting::Spins {
                thread,
                share,
                frames,
            } => Self::Spins {
                thread: thread.clone(),
                share: finite(*share),
                frames: all(frames),
            },
            model::Waiting::Sleeps {
                thread,
                share,
                switches_per_second,
            } => Self::Sleeps {
                thread: thread.clone(),
                share: finite(*share),
                switches_per_second: finite(*switches_per_second),
            },
            model::Waiting::HandsOver {
                thread,
                switches_per_second,
            } => Self::HandsOver {
                thread: thread.clone(),
                switches_per_second: finite(*switches_per_second),
            },
        }
    }
}

impl From<&model::Cause> for CauseKind {
    fn from(cause: &model::Cause) -> Self {
        match cause {
            model::Cause::Prefetcher {
                below,
                above,
                gap,
                towards,
            } => Self::Prefetcher {
                below: below.clone(),
                above: above.clone(),
                gap_bytes: *gap,
                towards: *towards,
            },
            model::Cause::Bandwidth { bytes_per_second } => Self::Bandwidth {
                bytes_per_second: finite(*bytes_per_second),
            },
            model::Cause::Capacity { bytes } => Self::Capacity { used_bytes: *bytes },
        }
    }
}
