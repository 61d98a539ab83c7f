//! Interleaved runs of two sides, and the median of what each pair says.

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};

/// What one run of one side gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// What it cost: seconds, or seconds per unit of work.
    pub(crate) cost: f64,
    /// Whether its threads ran side by side.
    pub(crate) side_by_side: bool,
}

/// The outcome of interleaved pairs.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Pairs {
    /// Cost of the second side over cost of the first, pair by pair, sorted.
    pub(crate) ratios: Vec<f64>,
    /// The differences, sorted.
    pub(crate) differences: Vec<f64>,
    /// Pairs of which both sides ran side by side; only these are in the lists, unless there were none.
    pub(crate) side_by_side: usize,
    /// All pairs.
    pub(crate) n: usize,
}

/// Runs both sides in turn: A B, B A, A B, …
pub(crate) fn interleave(
    n: u32,
    base: impl FnMut() -> Result<Run>,
    head: impl FnMut() -> Result<Run>,
) -> Result<Pairs> {
    interleave_until(usize::MAX, n, base, head)
}

/// Runs both sides in turn until `wanted` pairs ran side by side, `most` pairs at most.
pub(crate) fn interleave_until(
    wanted: usize,
    most: u32,
    mut base: impl FnMut() -> Result<Run>,
    mut head: impl FnMut() -> Result<Run>,
) -> Result<Pairs> {
    let mut pairs = Vec::new();
    let mut good = 0;
    for i in 0..most {
        if good >= wanted {
            break;
        }
        pairs.push(if i % 2 == 0 {
            let base = base()?;
            (base, head()?)
        } else {
            let head = head()?;
            (base()?, head)
        });
        good += usize::from(pairs.last().is_some_and(side_by_side));
    }
    Ok(summarise(&pairs))
}

fn side_by_side((base, head): &(Run, Run)) -> bool {
    base.side_by_side && head.side_by_side
}

fn summarise(pairs: &[(Run, Run)]) -> Pairs {
    let good: Vec<(Run, Run)> = pairs.iter().copied().filter(side_by_side).collect();
    let used = if good.is_empty() { pairs } else { &good };
    let sorted = |of: fn(&(Run, Run)) -> f64| {
        let mut values: Vec<f64> = used.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    Pairs {
        ratios: sorted(|(base, head)| head.cost / base.cost),
        differences: sorted(|(base, head)| head.cost - base.cost),
        side_by_side: good.len(),
        n: pairs.len(),
    }
}

/// The median of sorted values, NaN if there are none.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => f64::NAN,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// CPU seconds of all children waited for so far.
pub(crate) fn children_cpu() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cost: f64, side_by_side: bool) -> Run {
        Run { cost, side_by_side }
    }

    #[test]
    fn pairs_that_did_not_run_side_by_side_are_left_out_if_others_did() {
        let bad = (run(1.0, false), run(9.0, true));
        let good = (run(1.0, true), run(1.5, true));
        let pairs = summarise(&[bad, good]);
        assert_eq!(
            (pairs.ratios.as_slice(), pairs.side_by_side, pairs.n),
            ([1.5].as_slice(), 1, 2)
        );
        assert_eq!(summarise(&[bad]).ratios, [9.0]);
    }

    #[test]
    fn sides_take_turns_at_being_first() {
        let order = std::cell::RefCell::new(String::new());
        let side = |name| {
            order.borrow_mut().push(name);
            Ok(run(1.0, true))
        };
        interleave(3, || side('a'), || side('b')).unwrap();
        assert_eq!(*order.borrow(), "abbaab");
    }

    #[test]
    fn pairs_are_added_until_enough_ran_side_by_side() {
        let runs = std::cell::Cell::new(0);
        let side = || {
            runs.set(runs.get() + 1);
            Ok(run(1.0, runs.get() > 2))
        };
        let pairs = interleave_until(2, 9, side, side).unwrap();
        assert_eq!((pairs.side_by_side, pairs.n), (2, 3));
        runs.set(0);
        let pairs = interleave_until(2, 2, side, side).unwrap();
        assert_eq!((pairs.side_by_side, pairs.n), (1, 2));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 3.0, 9.0]), 2.5);
        assert!(median(&[]).is_nan());
    }
}
