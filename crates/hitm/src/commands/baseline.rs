//! The baseline of `hitm check`: fingerprints of what is known, so that only new findings fail.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hitm_model::CheckReport;

use super::input::read_text;
use super::replace::replace;

/// A baseline is not larger than this: some hundred thousand findings.
const MOST: u64 = 64 << 20;

/// What is known.
pub(super) struct Baseline {
    path: PathBuf,
    known: HashSet<String>,
}

impl Baseline {
    /// Reads a baseline: the first word of each line is a fingerprint.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = read_text(path, MOST).with_context(|| {
            format!("cannot read the baseline {shown} (make one: --write-baseline {shown})")
        })?;
        let mut known = HashSet::new();
        for (number, line) in text.lines().enumerate() {
            let first = line.split_whitespace().next();
            let Some(word) = first.filter(|word| !word.starts_with('#')) else {
                continue;
            };
            if word.len() != 16 || !word.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                bail!(
                    "{shown}: line {} does not begin with a fingerprint (is it a baseline? --write-baseline FILE makes one)",
                    number + 1
                );
            }
            known.insert(word.to_ascii_lowercase());
        }
        Ok(Self {
            path: path.to_owned(),
            known,
        })
    }

    /// Marks what is known.
    pub(super) fn mark(&self, report: &mut CheckReport) {
        report.baseline = Some(self.path.display().to_string());
        for finding in &mut report.findings {
            finding.known = self.known.contains(&finding.fingerprint);
        }
        for violation in &mut report.violations {
            violation.known = self.known.contains(&violation.fingerprint);
        }
    }
}

/// Writes all that was found as a baseline.
pub(super) fn write(path: &Path, reports: &[CheckReport]) -> Result<()> {
    replace(path, |mut file| file.write_all(text(reports).as_bytes())).with_context(|| {
        let shown = path.display();
        format!("cannot write the baseline {shown} (give another place: --write-baseline FILE)")
    })
}

fn text(reports: &[CheckReport]) -> String {
    let mut lines = vec![
        "# Findings of hitm check that are known. The first word of a line counts.".to_owned(),
    ];
    for report in reports {
        for violation in &report.violations {
            lines.push(line(
                &violation.fingerprint,
                violation.table,
                &violation.what,
            ));
        }
        for finding in &report.findings {
            let names: Vec<&str> = finding.parties.iter().map(|it| it.name.as_str()).collect();
            lines.push(line(
                &finding.fingerprint,
                finding.rule.name(),
                &names.join(", "),
            ));
        }
    }
    // Programs that share code share findings, and the order of what was found is no difference of two baselines.
    lines[1..].sort_unstable();
    lines.dedup();
    lines.push(String::new());
    lines.join("\n")
}

fn line(fingerprint: &str, kind: &str, what: &str) -> String {
    format!("{fingerprint}  {kind}  {}", what.replace(['\n', '\r'], " "))
}
