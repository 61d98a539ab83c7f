//! `hitm compare`: is B better than A, and may the two be compared at all?

pub(super) mod executor;
pub(super) mod facts;
mod kept;
mod libraries;
mod progress;
mod request;

use std::ffi::OsString;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use hitm_collect::trial::{adopt_orphans, end_if_killed};
use hitm_experiment::{
    ComparedRow, Comparison, Ended, Evidence, Outcome, Refusal, Row, RowSpec, Seconds, Side, Suite,
    conclude, refusals, run,
};
use hitm_report::{comparison_json, comparison_table};

use self::executor::Processes;
use self::facts::Gatherer;
use self::kept::{Kept, Watching};
use self::progress::PairsLine;
use super::found::{self, To};
use super::history::Store;
use super::interrupt;
use crate::cli::{CompareArgs, CompareFailOn};
use crate::exit_codes::Exit;
use crate::output;

/// Compares two sides, row by row.
pub(crate) fn compare(args: &CompareArgs) -> anyhow::Result<Exit> {
    let suite = request::suite(args)?;
    // That there is no place to save is to be known before the time is spent.
    let saved = args.save.as_ref();
    let mut store = saved
        .map(|path| Store::open_or_make(path.as_deref()))
        .transpose()?;
    let stop = interrupt::flag()?;
    adopt_orphans()?;
    end_if_killed(&["/proc/self/exe", "reaper"].map(OsString::from))?;
    let mut gatherer = Gatherer::default();
    let to = To::of(args.json.json.as_ref());
    let mut kept = Kept::new(to, unfinished(&suite, args));
    let mut left = suite.settings.budget;
    for (at, row) in suite.rows.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let part = left.map(|left| Seconds(left.0 / (suite.rows.len() - at) as f64));
        let (compared, spent) = one(&suite, row, part, args, &mut gatherer, &mut kept, &stop)
            .with_context(|| format!("row {}", row.name))?;
        left = left.map(|left| Seconds((left.0 - spent.0).max(0.0)));
        kept.over(compared);
    }
    let comparison = concluded(kept.into_rows(), unfinished(&suite, args));
    show(&comparison, args)?;
    if let Some(store) = &mut store {
        store.save(&comparison)?;
        output::say(&format!(
            "hitm: saved in {} (hitm history shows it)",
            store.path().display()
        ));
    }
    Ok(exit(
        &comparison,
        args.fail_on,
        stop.load(Ordering::Relaxed),
    ))
}

/// Runs one row, if it may be; and once more if it is odd.
fn one(
    suite: &Suite,
    row: &RowSpec,
    budget: Option<Seconds>,
    args: &CompareArgs,
    gatherer: &mut Gatherer,
    kept: &mut Kept<'_>,
    stop: &Arc<AtomicBool>,
) -> anyhow::Result<(ComparedRow, Seconds)> {
    let [a, b] = [Side::A, Side::B].map(|side| gatherer.side(suite, row, side));
    let (a, b) = (a?, b?);
    let git = gatherer.relation(&a, &b);
    let named = (suite.rows.len() > 1 || args.suite.is_some()).then_some(row.name.as_str());
    let refused = refusals(named, &a, &b, git.as_ref(), args.aa);
    let mut compared = ComparedRow {
        name: row.name.clone(),
        metric: row.metric.clone(),
        better: row.better,
        a,
        b,
        git,
        refusals: refused,
        forced: args.force,
        row: None,
        again: None,
        verdict: None,
        evidence: None,
    };
    if compared.is_refused() {
        return Ok((compared, Seconds(0.0)));
    }
    let mut processes = Processes::new(row, suite.settings.timeout, stop);
    let mut measure = |processes: &mut Processes<'_>, known: &ComparedRow, seed: u64| {
        let mut plan = suite.plan(row, budget);
        plan.seed = plan.seed.wrapping_add(seed);
        let mut watching = Watching {
            line: PairsLine::new(row, &plan),
            kept: &mut *kept,
            row: known,
            plan: plan.clone(),
        };
        let measured: Row<String> = run(plan, processes, &mut watching);
        watching.line.bar.clear();
        measured
    };
    let first = measure(&mut processes, &compared, 0);
    let odd = first.suspicious();
    compared.row = Some(first.clone());
    if let Some(why) = odd
        && !stop.load(Ordering::Relaxed)
    {
        output::say(&format!("hitm: {}: {why}; it is run once more", row.name));
        compared.again = Some(measure(&mut processes, &compared, 1));
    }
    if let Some((side, busiest)) = first.saturated_client() {
        compared.refusals.push(Refusal::SaturatedClient {
            side: compared.facts(side).name.clone(),
            client: busiest.client,
            server: busiest.server,
        });
    }
    let measured = !matches!(first.ended, Ended::Failed { .. } | Ended::Unusable(_));
    if args.evidence && measured && !stop.load(Ordering::Relaxed) {
        compared.evidence = Some(mechanism(&mut processes, &compared.name));
        refuse_few_writers(&mut compared);
    }
    Ok((compared, hitm_experiment::Executor::spent(&processes)))
}

/// One recording of each side, after all that is timed.
fn mechanism(processes: &mut Processes<'_>, row: &str) -> Evidence {
    let [a, b] = [Side::A, Side::B].map(|side| {
        output::say(&format!(
            "hitm: {row}: recording {} under hitm run",
            match side {
                Side::A => "A",
                Side::B => "B",
            }
        ));
        processes.record(side)
    });
    Evidence::of(
        a.as_ref().map_err(Clone::clone),
        b.as_ref().map_err(Clone::clone),
    )
}

/// Only now it is known what the threads do.
fn refuse_few_writers(row: &mut ComparedRow) {
    let Some((side, recording)) = row.evidence.as_ref().and_then(Evidence::too_few_writers) else {
        return;
    };
    let refusal = Refusal::FewWriters {
        side: row.facts(side).name.clone(),
        writers: recording.writing_threads,
        threads: recording.threads,
    };
    row.refusals.push(refusal);
}

/// A comparison of which nothing is known yet.
fn unfinished(suite: &Suite, args: &CompareArgs) -> Comparison {
    Comparison {
        names: suite.names.clone(),
        asked: suite.rows.len(),
        rows: Vec::new(),
        aa: args.aa,
        complete: false,
        machine: facts::machine(),
    }
}

/// All rows together, because the more there are, the more one of them seems to differ by chance.
fn concluded(mut rows: Vec<ComparedRow>, of: Comparison) -> Comparison {
    let measured: Vec<(&Row<String>, Option<&Row<String>>)> = rows
        .iter()
        .filter_map(|row| Some((row.row.as_ref()?, row.again.as_ref())))
        .collect();
    let mut verdicts = conclude(&measured).into_iter();
    for row in &mut rows {
        if row.row.is_some() {
            row.verdict = verdicts.next();
        }
    }
    Comparison {
        rows,
        complete: true,
        ..of
    }
}

/// What the process does that hitm starts to clean up after it.
pub(crate) fn reaper() -> anyhow::Result<Exit> {
    hitm_collect::trial::reap()?;
    Ok(Exit::Done)
}

fn show(comparison: &Comparison, args: &CompareArgs) -> anyhow::Result<()> {
    found::show(
        To::of(args.json.json.as_ref()),
        |out| comparison_json(comparison, out),
        |text: &mut Vec<u8>| -> io::Result<()> { comparison_table(comparison, text) },
    )
}

fn exit(comparison: &Comparison, fail_on: CompareFailOn, interrupted: bool) -> Exit {
    let regressed = comparison
        .rows
        .iter()
        .any(|row| row.outcome() == Some(Outcome::Regressed));
    // A row without a result is no success: a script must notice that nothing was compared.
    let failed = |row: &ComparedRow| match &row.row {
        None => true,
        Some(_) if row.is_refused() => true,
        Some(row) => matches!(
            row.ended,
            Ended::Failed { .. } | Ended::Unusable(_) | Ended::NoLook
        ),
    };
    let ended = |one: &dyn Fn(&Ended<String>) -> bool| {
        comparison
            .rows
            .iter()
            .filter_map(|row| row.row.as_ref())
            .any(|row| one(&row.ended))
    };
    if regressed && fail_on == CompareFailOn::Regressed {
        Exit::Gate
    } else if interrupted || comparison.rows.iter().any(failed) {
        Exit::Error
    } else if ended(&|ended| *ended == Ended::Disturbed) {
        Exit::Refused
    } else {
        Exit::Done
    }
}
