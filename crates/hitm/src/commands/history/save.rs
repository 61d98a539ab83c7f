//! A comparison into the history: every outcome, every run.

use std::time::{SystemTime, UNIX_EPOCH};

use hitm_experiment::{
    Better, ComparedRow, Comparison, DecidedBy, Disturbed, Ended, Mechanism, Outcome, Pair,
    Purpose, Row, Side, SideFacts, Trial,
};
use rusqlite::{Transaction, TransactionBehavior, params};

use super::store::{Store, cannot};

impl Store {
    /// Saves a comparison, whole or not at all.
    ///
    /// # Errors
    /// If there is no room, or another process holds the file for too long. Then nothing of it is saved.
    pub(crate) fn save(&mut self, comparison: &Comparison) -> anyhow::Result<()> {
        self.try_save(comparison)
            .map_err(|error| cannot(&self.path, "save in", &error))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &std::path::Path {
        &self.path
    }

    fn try_save(&mut self, comparison: &Comparison) -> rusqlite::Result<()> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let millis = now.map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        });
        transaction.execute(
            "INSERT INTO comparison (saved_at, hitm, machine, machine_key, a, b, aa, rows_asked)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                millis,
                env!("CARGO_PKG_VERSION"),
                comparison.machine,
                super::machine_key(&comparison.machine),
                comparison.names[0],
                comparison.names[1],
                comparison.aa,
                count(comparison.asked)
            ],
        )?;
        let id = transaction.last_insert_rowid();
        for row in &comparison.rows {
            save_row(&transaction, id, row)?;
        }
        transaction.commit()
    }
}

fn save_row(
    transaction: &Transaction<'_>,
    comparison: i64,
    row: &ComparedRow,
) -> rusqlite::Result<()> {
    let measured = row.row.as_ref();
    let estimate = measured.and_then(|row| row.estimate.as_ref());
    let refusals: Vec<String> = row.refusals.iter().map(ToString::to_string).collect();
    let finite = |value: f64| value.is_finite().then_some(value);
    transaction.execute(
        "INSERT INTO row (comparison, name, metric, unit, better, outcome, decided_by, mechanism, refusals, forced, ended,
             pairs, floor, effect, low, high, p, adjusted_p)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            comparison,
            row.name,
            row.metric.to_string(),
            row.metric.unit(),
            match row.better {
                Better::Higher => "higher",
                Better::Lower => "lower",
            },
            outcome(row),
            row.decided_by().map(|by| match by {
                DecidedBy::Pairs => "pairs",
                DecidedBy::Mechanism => "mechanism",
            }),
            row.evidence.as_ref().map(|evidence| mechanism(&evidence.says)),
            refusals.join("\n"),
            row.forced && !row.refusals.is_empty(),
            measured.map(|row| ended(&row.ended)),
            count(measured.map_or(0, |row| row.differences().len())),
            measured.map(|row| row.floor.ln()),
            estimate.map(|estimate| estimate.effect.ln()),
            estimate.and_then(|estimate| finite(estimate.interval.low.ln())),
            estimate.and_then(|estimate| finite(estimate.interval.high.ln())),
            estimate.map(|estimate| estimate.p),
            row.verdict.as_ref().map(|verdict| verdict.adjusted_p)
        ],
    )?;
    let id = transaction.last_insert_rowid();
    for (side, facts) in [(Side::A, &row.a), (Side::B, &row.b)] {
        save_side(transaction, id, side, facts, measured)?;
    }
    for (number, measured) in [(1, measured), (2, row.again.as_ref())] {
        let Some(measured) = measured else {
            continue;
        };
        for (purpose, pairs) in [
            (Purpose::Noise, &measured.noise),
            (Purpose::Pair, &measured.pairs),
        ] {
            for (at, pair) in pairs.iter().enumerate() {
                for side in [Side::A, Side::B] {
                    save_trial(transaction, id, number, purpose, at, pair, side)?;
                }
            }
        }
    }
    Ok(())
}

fn save_side(
    transaction: &Transaction<'_>,
    row: i64,
    side: Side,
    facts: &SideFacts,
    measured: Option<&Row<String>>,
) -> rusqlite::Result<()> {
    let program = facts.programs.first();
    let variables: Vec<String> = facts
        .variables
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    transaction.execute(
        "INSERT INTO side (row, side, command, server, variables, directory, program, sha256, build_id, git_commit, dirty,
             median)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        params![
            row,
            letter(side),
            hitm_model::shell_command(&facts.words),
            hitm_model::shell_command(&facts.server),
            hitm_model::shell_command(&variables),
            facts.directory,
            program.map(|program| &program.path),
            program.map(|program| &program.sha256),
            program.and_then(|program| program.build_id.as_ref()),
            facts.git.as_ref().map(|git| &git.commit),
            facts.git.as_ref().map(|git| git.dirty),
            measured.and_then(|row| row.median(side))
        ],
    )?;
    Ok(())
}

fn save_trial(
    transaction: &Transaction<'_>,
    row: i64,
    measurement: i64,
    purpose: Purpose,
    at: usize,
    pair: &Pair,
    side: Side,
) -> rusqlite::Result<()> {
    let Trial { value, health } = pair.trial(side);
    let disturbed: Vec<&str> = health
        .disturbed()
        .into_iter()
        .map(Disturbed::word)
        .collect();
    let mut insert = transaction.prepare_cached(
        "INSERT INTO trial (row, measurement, purpose, pair, side, first, value, wall, cpu, max_rss, stolen, others, queued,
             involuntary_switches, megahertz, left_behind, disturbed)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?;
    insert.execute(params![
        row,
        measurement,
        match purpose {
            Purpose::WarmUp => "warm-up",
            Purpose::Noise => "noise",
            Purpose::Pair => "pair",
        },
        count(at),
        letter(side),
        pair.first == side,
        // SQLite has no word for what is no number.
        if value.is_finite() { *value } else { -1.0 },
        health.wall.0,
        health.cpu.0,
        i64::try_from(health.max_rss).unwrap_or(i64::MAX),
        health.stolen.map(|time| time.0),
        health.foreign.map(|time| time.0),
        health.queued.map(|time| time.0),
        i64::try_from(health.involuntary_switches).unwrap_or(i64::MAX),
        health.megahertz,
        count(health.left_behind),
        disturbed.join(",")
    ])?;
    Ok(())
}

fn count(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn letter(side: Side) -> &'static str {
    match side {
        Side::A => "a",
        Side::B => "b",
    }
}

fn outcome(row: &ComparedRow) -> &'static str {
    match row.outcome() {
        _ if row.is_refused() => "refused",
        Some(Outcome::Improved) => "improved",
        Some(Outcome::Regressed) => "regressed",
        Some(Outcome::Equivalent) => "equivalent",
        Some(Outcome::Undecided { .. }) | None => "undecided",
    }
}

fn ended(ended: &Ended<String>) -> &'static str {
    match ended {
        Ended::Running => "running",
        Ended::Decided => "decided",
        Ended::AllRun => "all-run",
        Ended::NoLook => "no-look",
        Ended::Budget => "budget",
        Ended::Disturbed => "disturbed",
        Ended::Unusable(_) => "unusable",
        Ended::Failed { .. } => "failed",
    }
}

fn mechanism(says: &Mechanism) -> &'static str {
    match says {
        Mechanism::FalseSharingGone { .. } => "false-sharing-gone",
        Mechanism::FalseSharingNew { .. } => "false-sharing-new",
        Mechanism::FalseSharingMoved { .. } => "false-sharing-moved",
        Mechanism::FalseSharingStays { .. } => "false-sharing-stays",
        Mechanism::NoFalseSharing => "no-false-sharing",
        Mechanism::CannotTell { .. } => "cannot-tell",
    }
}
