//! Whether a check makes a build fail.

use std::fmt;
use std::str::FromStr;

use hitm_model::{CheckCaveat, CheckReport, Confidence};

/// What makes a build fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckFailOn {
    /// Nothing.
    Never,
    /// What the policy forbids.
    Policy,
    /// That, and findings of this confidence or more.
    Confidence(Confidence),
}

/// Whether the reports have what makes a build fail: neither allowed by the policy nor in the baseline.
#[must_use]
pub fn check_gate(reports: &[CheckReport], fail_on: CheckFailOn) -> bool {
    let violated = reports
        .iter()
        .any(|report| report.violations.iter().any(|violation| !violation.known));
    let found = |least| {
        reports.iter().any(|report| {
            report.findings.iter().any(|finding| {
                finding.confidence >= least && finding.allowed.is_none() && !finding.known
            })
        })
    };
    match fail_on {
        CheckFailOn::Never => false,
        CheckFailOn::Policy => violated,
        CheckFailOn::Confidence(least) => violated || found(least),
    }
}

/// Why findings cannot make a build fail, if there is nothing to judge by: a gate fails closed.
#[must_use]
pub fn cannot_check(reports: &[CheckReport], fail_on: CheckFailOn) -> Option<String> {
    if !matches!(fail_on, CheckFailOn::Confidence(_)) {
        return None;
    }
    let blind = reports.iter().find(|report| report.totals.functions == 0)?;
    let foreign = blind.caveats.contains(&CheckCaveat::ForeignInstructions);
    let why = match foreign {
        true => {
            "is not for x86-64, and its instructions were not read; --fail-on policy checks the layout alone"
        }
        false => {
            "has no function that could be found; check what the linker wrote, before it is stripped"
        }
    };
    Some(format!("{} {why}", blind.binary))
}

impl FromStr for CheckFailOn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "never" => Self::Never,
            "policy" => Self::Policy,
            "low" => Self::Confidence(Confidence::Low),
            "medium" => Self::Confidence(Confidence::Medium),
            "high" => Self::Confidence(Confidence::High),
            _ => return Err("use `low`, `medium`, `high`, `policy` or `never`".to_owned()),
        })
    }
}

impl fmt::Display for CheckFailOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::Policy => f.write_str("policy"),
            Self::Confidence(confidence) => confidence.fmt(f),
        }
    }
}
