//! The denominators of a measured cost: windows, cores, noise, and what measuring it cost the program.

use hitm_model::{CoLocated, Nanos};

use crate::measured::with_cost;
use crate::refusals::unfinished;
use crate::words::{count, counted, seconds, some_of};

/// In one sentence; `None` if there was no window at all.
pub(super) fn basis(groups: &[&CoLocated], all: bool) -> Option<String> {
    let sum = |of: fn(&CoLocated) -> u64| -> u64 { groups.iter().map(|group| of(group)).sum() };
    let apart = sum(|group| group.windows.apart.into());
    let together = sum(|group| group.windows.together.into());
    let without = sum(|group| group.windows.dropped.into());
    if apart + together + without == 0 {
        return None;
    }
    let mut parts = vec![format!(
        "{}{} apart and {} together, {}",
        counted(apart, "window"),
        length(groups),
        count(together),
        dropped(without)
    )];
    let has_costs = groups.iter().any(|group| !with_cost(group).is_empty());
    if has_costs {
        parts.extend(groups.iter().find_map(|group| too_few(group)));
        parts.extend(noise(groups));
    }
    parts.extend(cores(groups));
    if has_costs {
        parts.extend(placement_alone(groups, all));
    }
    let lost = Nanos(sum(|group| group.lost.0));
    parts.push(format!(
        "the program lost {} of processor time by it",
        seconds(lost)
    ));
    Some(parts.join("; "))
}

/// Where the windows were enough for a cost, but are not all.
fn too_few(group: &CoLocated) -> Option<String> {
    let why = unfinished(&group.outcome)?;
    let planned = count(group.windows.planned.into());
    Some(format!("{planned} of each were planned: {why}"))
}

/// ` of 100 ms`.
fn length(groups: &[&CoLocated]) -> String {
    match groups {
        [first, others @ ..] if others.iter().all(|group| group.window == first.window) => {
            format!(" of {}", first.window)
        }
        _ => String::new(),
    }
}

fn dropped(windows: u64) -> String {
    match windows {
        0 => "none dropped".into(),
        n => format!(
            "{} dropped because a thread did not get its processor",
            count(n)
        ),
    }
}

/// Where the windows apart were; rows that are one kind each say it themselves.
fn cores(groups: &[&CoLocated]) -> Option<String> {
    let [group] = groups else { return None };
    let mut cpus: Vec<_> = group.cpus.iter().map(u32::to_string).collect();
    cpus.dedup();
    let cpus = match cpus.as_slice() {
        [] => String::new(),
        cpus => format!(
            " (processors {})",
            some_of(cpus.iter().map(String::as_str), 8)
        ),
    };
    Some(format!("on {}{cpus}", group.distance))
}

/// The largest noise floor.
fn noise(groups: &[&CoLocated]) -> Option<String> {
    let costs = groups.iter().flat_map(|group| with_cost(group));
    let floor = costs.map(|(_, cost)| cost.floor).max_by(f64::total_cmp)?;
    Some(format!("apart against apart within {floor:.2}×"))
}

/// What the ratios were divided by, where that is not 1.
fn placement_alone(groups: &[&CoLocated], all: bool) -> Option<String> {
    let known: Vec<_> = groups.iter().filter_map(|group| group.baseline).collect();
    if known.len() < groups.len() {
        return Some("not calibrated: what turbo clocks do is in it".into());
    }
    let low = known.iter().map(|known| known.low).min_by(f64::total_cmp)?;
    let high = known
        .iter()
        .map(|known| known.high)
        .max_by(f64::total_cmp)?;
    let is_one = (low - 1.0).abs() < 0.01 && (high - 1.0).abs() < 0.01;
    (all || !is_one)
        .then(|| format!("divided by {low:.2}× to {high:.2}×, which placement alone does here"))
}
