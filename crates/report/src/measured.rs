//! What the windows say of a finding in one number, and whether that number is a cost.
//!
//! The title, the gate and the JSON use the same judgement, so that they never disagree.

use hitm_model::{CoLocated, Cost, Evidence, Finding, Interval, ThreadCost};

/// A ratio below this is no cost: the prototype of the method gave 1.00 ± 0.03 where nothing was shared.
const NOTHING: f64 = 1.05;

/// A ratio below its inverse is not 1 either.
const SLOWER: f64 = 1.03;

/// What threads were compared for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joined {
    /// A finding that joins them.
    ByFinding,
    /// No listed finding joins them.
    ByNothing,
}

/// What a ratio with its interval is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Judged {
    /// All of the interval is below what counts, or below what windows of one kind differ by.
    Nothing,
    /// All of the interval is below 1 by more than the noise: on one core they get in each other's way, in its caches for
    /// one, and that may hide a cost.
    Slower,
    /// Neither: the interval reaches from nothing to a cost, or the ratio is no higher than the noise.
    WithinNoise,
    /// All of the interval is above 1, and the ratio is above the noise.
    Costs,
}

/// Whether a thread's ratio is a cost.
pub(crate) fn judge(cost: &Cost) -> Judged {
    let Interval { ratio, low, high } = cost.ratio;
    if high < 1.0 && ratio < 1.0 / SLOWER.max(cost.floor) {
        Judged::Slower
    } else if high < NOTHING.max(cost.floor) {
        Judged::Nothing
    } else if low > 1.0 && ratio > cost.floor {
        Judged::Costs
    } else {
        Judged::WithinNoise
    }
}

/// The measured cost of a finding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// What it is.
    pub(crate) judged: Judged,
    /// The highest of its threads.
    pub(crate) ratio: Interval,
}

/// What `groups` say in one number: the highest ratio of the threads whose ratio is a cost, or of all if none is.
///
/// `None` where nothing was measured. So too where no ratio is a cost but a thread has none: it may be the one that
/// pays.
pub(crate) fn measured<'a>(
    groups: impl Iterator<Item = &'a CoLocated> + Clone,
) -> Option<Measured> {
    let threads = groups.flat_map(|group| &group.threads);
    let highest = threads
        .clone()
        .filter_map(|thread| thread.cost.as_ref().ok())
        .map(|cost| (judge(cost), cost.ratio))
        .max_by(|a, b| a.0.cmp(&b.0).then(a.1.ratio.total_cmp(&b.1.ratio)));
    let (judged, ratio) = highest?;
    let all_known = threads.clone().all(|thread| thread.cost.is_ok());
    (judged == Judged::Costs || all_known).then_some(Measured { judged, ratio })
}

/// What was measured for `finding`: one group of threads, or one for each pair or each kind of core pair.
pub(crate) fn groups(finding: &Finding) -> impl Iterator<Item = &CoLocated> + Clone {
    finding
        .evidence
        .iter()
        .filter_map(|evidence| match evidence {
            Evidence::CoLocated(group) => Some(group),
            Evidence::Sampled(_) => None,
        })
}

/// The other findings of the same threads, as indexes: the ratio is what all of them cost together.
pub(crate) fn companions(findings: &[Finding], at: usize) -> Vec<usize> {
    let same = |other: &Finding| {
        groups(&findings[at]).any(|group| groups(other).any(|theirs| theirs == group))
    };
    (0..findings.len())
        .filter(|&other| other != at && same(&findings[other]))
        .collect()
}

/// The share of the worst thread's time that its sharing takes, from 0 to 1, by the upper ends of the intervals.
///
/// `None` where a thread has no ratio, or is slower together: then nothing is known to be cheap.
pub(crate) fn measured_share(finding: &Finding) -> Option<f64> {
    let mut highest: Option<f64> = None;
    for thread in groups(finding).flat_map(|group| &group.threads) {
        let cost = thread.cost.as_ref().ok()?;
        let high = cost.ratio.high;
        if high.is_nan() || judge(cost) == Judged::Slower {
            return None;
        }
        highest = Some(highest.map_or(high, |highest| highest.max(high)));
    }
    highest.map(|high| (1.0 - 1.0 / high).max(0.0))
}

/// Threads with a ratio, the most affected first.
pub(crate) fn with_cost(group: &CoLocated) -> Vec<(&ThreadCost, &Cost)> {
    let mut threads: Vec<_> = group
        .threads
        .iter()
        .filter_map(|thread| Some((thread, thread.cost.as_ref().ok()?)))
        .collect();
    threads.sort_by(|a, b| b.1.ratio.ratio.total_cmp(&a.1.ratio.ratio));
    threads
}
