//! One program in one layout under `hitm run`, compared with the truth.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, bail};
use hitm_testkit::{Claim, Judgement, judge, parse_truth, run_limited};
use serde_json::Value;

use super::truth::Case;
use super::{TIME_LIMIT, last_line};

/// Where and with what programs are run.
pub(super) struct Session {
    pub(super) hitm: PathBuf,
    /// The folder of the corpus.
    pub(super) work: PathBuf,
}

impl Session {
    /// Runs a program under hitm and judges the report.
    pub(super) fn judged(&self, case: &Case<'_>, iterations: u64) -> Result<Judgement> {
        let json = self.work.join("report.json");
        let _ = std::fs::remove_file(&json);
        let mut command = Command::new(&self.hitm);
        command
            .current_dir(&self.work)
            .args(["run", "--json=report.json", "-o", "last.hitm"])
            .args(["--threads-by", "tid", "--"])
            .args(case.command_line())
            // In this order: programs may choose their layout by what `--addrs` left in the heap.
            .args(["--iters", &iterations.to_string(), "--addrs"]);
        let outcome = run_limited(&mut command, TIME_LIMIT)?;
        if outcome.timed_out {
            bail!("not done after {} s", TIME_LIMIT.as_secs());
        }
        let report = read(&json)
            .with_context(|| format!("hitm: {}: {}", outcome.status, last_line(&outcome.stderr)))?;
        if report.pointer("/child/code").and_then(Value::as_i64) != Some(0) {
            bail!("the program failed: {}", report["child"]);
        }
        let truths = parse_truth(&outcome.stderr).map_err(|line| anyhow!("bad truth: {line}"))?;
        let claims: Vec<Claim> = truths
            .into_iter()
            .filter(|truth| case.claims(truth))
            .map(|truth| Claim {
                truth,
                ending: None,
                named: true,
            })
            .collect();
        if case.verdict.is_some() && claims.is_empty() {
            bail!("the program printed no addresses");
        }
        judge(&report, case.verdict, &claims).map_err(anyhow::Error::msg)
    }
}

/// A report that hitm wrote.
pub(super) fn read(json: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(json).context("no report")?;
    serde_json::from_str(&text).context("the report is not JSON")
}
