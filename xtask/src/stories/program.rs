//! A layout that is a program of its own, with options: it runs under hitm, and alone, and ends by itself.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::case::{Layout, Session, TIME_LIMIT};
use super::child;
use crate::pairs::{Run, children_cpu};

/// Two threads that use less than this many processors did not run side by side all the time.
const SIDE_BY_SIDE_CPUS: f64 = 1.85;

/// A program and its options.
pub(super) struct Program {
    pub(super) path: PathBuf,
    /// Under `hitm run`.
    pub(super) look: String,
    /// Under `hitm prove`, which ends it.
    pub(super) prove: String,
    /// When it is timed.
    pub(super) timed: String,
    pub(super) meter: Meter,
}

/// How what a timed run prints is read.
#[derive(Clone, Copy)]
pub(super) enum Meter {
    /// The lab of story 1: what its spawner got done.
    Spawned,
    /// The JSON of doradd's `ycsb`: transactions.
    Executed,
    /// The collector's own JSON.
    Collected,
}

impl Layout for Program {
    fn look(&self, session: &Session<'_>) -> Result<Value> {
        self.under(session, "run", &self.look)
    }

    fn prove(&self, session: &Session<'_>) -> Result<Value> {
        self.under(session, "prove", &self.prove)
    }

    fn time(&self, session: &Session<'_>) -> Result<Run> {
        let mut command = Command::new(&self.path);
        command.args(self.timed.split_whitespace());
        // Beside the program is what it reads: hitm, too, runs it there.
        if let Some(folder) = self.path.parent() {
            command.current_dir(folder);
        }
        let (before, began) = (children_cpu()?, Instant::now());
        let ended = child::run(&mut command, TIME_LIMIT, session.interrupts)?;
        let cpus = (children_cpu()? - before) / began.elapsed().as_secs_f64();
        let run = match self.meter {
            Meter::Spawned => spawned(&ended.stdout, cpus),
            Meter::Executed => executed(&ended.stdout, cpus),
            Meter::Collected => collected(&ended.stdout),
        };
        run.with_context(|| format!("{} printed {:?}", self.path.display(), ended.stdout))
    }
}

impl Program {
    fn under(&self, session: &Session<'_>, subcommand: &str, options: &str) -> Result<Value> {
        session.hitm(subcommand, |command| {
            command
                .arg("--")
                .arg(&self.path)
                .args(options.split_whitespace());
        })
    }
}

/// From `story1 layout=packed spawned=18.30 M/s …`.
fn spawned(output: &str, cpus: f64) -> Option<Run> {
    let mut words = output.split_whitespace();
    let rate = words.find_map(|word| word.strip_prefix("spawned="))?;
    of_rate(rate.parse().ok()?, cpus)
}

fn executed(output: &str, cpus: f64) -> Option<Run> {
    let document: Value = serde_json::from_str(output).ok()?;
    of_rate(document["measured"]["executed_per_s"].as_f64()?, cpus)
}

fn of_rate(rate: f64, cpus: f64) -> Option<Run> {
    (rate > 0.0).then(|| Run {
        cost: 1.0 / rate,
        side_by_side: cpus >= SIDE_BY_SIDE_CPUS,
    })
}

/// The collector says itself whether its threads ran side by side.
fn collected(output: &str) -> Option<Run> {
    let document: Value = serde_json::from_str(output).ok()?;
    let run = document.pointer("/rows/0/runs/0")?;
    Some(Run {
        cost: run["seconds"].as_f64()? / document["total"].as_f64()?,
        side_by_side: run["side_by_side"].as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_read() {
        let run = spawned("story1 layout=packed spawned=20.00 M/s seconds=1.00\n", 1.9).unwrap();
        assert_eq!((run.cost, run.side_by_side), (0.05, true));
        assert!(!spawned("spawned=20.00", 1.8).unwrap().side_by_side);
        assert!(spawned("spawned=0.00", 2.0).is_none());
        let json = r#"{"measured": {"executed_per_s": 4.0}}"#;
        assert_eq!(executed(json, 2.0).unwrap().cost, 0.25);
        let json =
            r#"{"total": 100, "rows": [{"runs": [{"seconds": 2.0, "side_by_side": false}]}]}"#;
        let run = collected(json).unwrap();
        assert_eq!((run.cost, run.side_by_side), (0.02, false));
        assert!(collected("table").is_none());
    }
}
