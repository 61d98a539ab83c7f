//! What there is to know about a row beside its line: on what it rests, and how to go on.

use hitm_experiment::{ComparedRow, Disturbed, Ended, Outcome, Pair, Row, Side, Unusable};

use super::mechanism;
use super::sides;
use super::table::{signed, word};
use crate::words::counted;

/// The notes of a row of a comparison with so many rows.
pub(super) fn of(row: &ComparedRow, rows: usize) -> Vec<String> {
    let mut notes = sides::notes(row);
    for refusal in &row.refusals {
        let what = if row.forced {
            "not comparable"
        } else {
            "refused"
        };
        notes.push(format!("{what}: {refusal}"));
        if !row.forced {
            notes.push(format!("try: {}", refusal.remedy()));
        }
    }
    let Some(measured) = &row.row else {
        return notes;
    };
    notes.extend(ended(row, measured));
    notes.push(ground(row, measured, rows));
    notes.extend(disturbed(measured));
    if let Some(again) = &row.again {
        notes.push(again_note(row, measured, again));
    }
    if let Some(left) = left_behind(measured) {
        notes.push(left);
    }
    if let Some(evidence) = &row.evidence {
        notes.extend(mechanism::notes(row, evidence));
    }
    notes
}

/// Why no more was run, where that is not simply that it is decided.
fn ended(row: &ComparedRow, measured: &Row<String>) -> Option<String> {
    let name = |side: &Side| match side {
        Side::A => &row.a.name,
        Side::B => &row.b.name,
    };
    Some(match &measured.ended {
        Ended::Decided => return None,
        Ended::Running => "it has not ended".into(),
        Ended::AllRun => undecided(row, measured)?,
        Ended::NoLook => "so few pairs decide nothing, whatever they show: --pairs 20".into(),
        Ended::Budget => {
            let looked = measured.estimate.as_ref().map_or(0, |estimate| estimate.pairs);
            format!(
                "the time was over; what is said rests on the first {looked} pairs (more: --budget SECONDS)"
            )
        }
        Ended::Disturbed => {
            "too many runs were disturbed to go on: this machine has no time for it now (stop what else runs, and again)"
                .into()
        }
        Ended::Unusable(why) => {
            let next = match why {
                Unusable::Coarse { .. } => "print more digits, run longer, or --floor PERCENT",
                Unusable::NotPositive { .. } => "does the metric take the number that you mean?",
            };
            format!("{why} ({next})")
        }
        Ended::Failed { side, failure } => format!("{} failed: {failure}", name(side)),
    })
}

fn undecided(row: &ComparedRow, measured: &Row<String>) -> Option<String> {
    let verdict = row.verdict.as_ref()?;
    let Outcome::Undecided { more_pairs } = verdict.outcome else {
        return None;
    };
    let all = measured.plan.looks.most_pairs();
    Some(match more_pairs {
        Some(more) => format!(
            "{all} pairs do not decide; about {more} more would at this noise: --pairs {}",
            (all + more).next_multiple_of(2)
        ),
        None => format!("{all} pairs do not decide, and no sensible number would at this noise"),
    })
}

/// The evidence and its denominators.
fn ground(row: &ComparedRow, measured: &Row<String>, rows: usize) -> String {
    let differences = measured.differences();
    let mut text = counted(differences.len() as u64, "pair");
    if let Some(estimate) = &measured.estimate {
        text.push_str(&format!(
            ", looked at with {}: median of the pairs {}, p {}",
            estimate.pairs,
            signed(estimate.median),
            probability(estimate.p)
        ));
        if let Some(verdict) = row.verdict.as_ref().filter(|_| rows > 1) {
            text.push_str(&format!(
                ", {} by Holm's correction for {rows} rows",
                probability(verdict.adjusted_p)
            ));
        }
    }
    text.push_str(&format!(
        "; effects below {} do not count",
        signed(measured.floor)
    ));
    let noise = measured.noise_differences();
    if !noise.is_empty() {
        let mut sizes: Vec<f64> = noise.iter().map(|one| one.percent().abs()).collect();
        sizes.sort_by(f64::total_cmp);
        text.push_str(&format!(
            "; A against itself differed by {:.1} % (median of {})",
            sizes[sizes.len() / 2],
            counted(noise.len() as u64, "pair")
        ));
    }
    text
}

fn probability(p: f64) -> String {
    if p < 0.001 {
        "below 0.001".into()
    } else {
        format!("{p:.3}")
    }
}

fn disturbed(measured: &Row<String>) -> Option<String> {
    let bad: Vec<Vec<Disturbed>> = measured
        .pairs
        .iter()
        .map(Pair::disturbed)
        .filter(|why| !why.is_empty())
        .collect();
    if bad.is_empty() {
        return None;
    }
    let of = |kind| bad.iter().filter(|why| why.contains(&kind)).count();
    Some(format!(
        "{} of {} pairs did not count and were run again: {} because the hypervisor took processors away, {} because other programs ran",
        bad.len(),
        measured.pairs.len(),
        of(Disturbed::Stolen),
        of(Disturbed::Foreign)
    ))
}

fn again_note(row: &ComparedRow, first: &Row<String>, again: &Row<String>) -> String {
    let effect = |row: &Row<String>| {
        row.estimate
            .as_ref()
            .map_or_else(|| "nothing".into(), |estimate| signed(estimate.effect))
    };
    let why = first
        .suspicious()
        .map_or_else(String::new, |why| format!("{why}; "));
    let confirmed = row.verdict.as_ref().is_some_and(|verdict| {
        word(verdict.outcome) == word(first.outcome(hitm_experiment::ERROR))
    });
    format!(
        "{why}it was run once more: first {}, then {}: {}",
        effect(first),
        effect(again),
        if confirmed {
            "confirmed"
        } else {
            "not confirmed"
        }
    )
}

fn left_behind(measured: &Row<String>) -> Option<String> {
    let runs = measured.noise.iter().chain(&measured.pairs);
    let most = runs
        .flat_map(|pair| [&pair.a, &pair.b])
        .map(|trial| trial.health.left_behind)
        .max()?;
    (most > 0).then(|| {
        format!(
            "runs left up to {} behind, which were ended; their time is in no metric but wall",
            counted(most as u64, "process")
        )
    })
}
