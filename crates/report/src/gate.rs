//! Whether a report makes a build fail.

use std::fmt;
use std::str::FromStr;

use hitm_model::{Finding, Report, Verdict};

use crate::Error;

/// What `--fail-on` asks for: `never`, or which verdicts count and from which share of time on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FailOn {
    /// Nothing fails.
    Never,
    /// `false-sharing` and `mixed` findings: those where a repair of the layout helps.
    FalseSharing(LeastShare),
    /// Every finding but `lock-and-data`, which is meant where it is found.
    Any(LeastShare),
}

/// A share of time, from 0 to 1, at and above which a finding counts.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct LeastShare(f64);

impl LeastShare {
    /// Everything counts.
    pub const ZERO: Self = Self(0.0);

    /// `percent` from 0 to 100; `None` for any other number.
    #[must_use]
    pub fn from_percent(percent: f64) -> Option<Self> {
        (0.0..=100.0)
            .contains(&percent)
            .then_some(Self(percent / 100.0))
    }
}

/// Whether `report` has a finding that `fail_on` asks for.
///
/// A finding's share is the larger of its [share](hitm_model::Severity::share) of the participants' time and that of
/// its [worst thread](hitm_model::Severity::worst_thread), because a rare victim is one too. Findings that the report
/// does not list count for nothing.
#[must_use]
pub fn gate(report: &Report, fail_on: FailOn) -> bool {
    report
        .findings
        .iter()
        .any(|finding| counts(finding, fail_on))
}

fn counts(finding: &Finding, fail_on: FailOn) -> bool {
    let (verdict_counts, least) = match fail_on {
        FailOn::Never => return false,
        FailOn::FalseSharing(least) => (is_false_sharing(finding.verdict), least),
        FailOn::Any(least) => (is_unwanted(finding.verdict), least),
    };
    let share = finding.severity.share().max(finding.severity.worst_thread);
    verdict_counts && share >= least.0
}

const fn is_false_sharing(verdict: Verdict) -> bool {
    match verdict {
        Verdict::FalseSharing | Verdict::Mixed => true,
        Verdict::TrueSharing | Verdict::LockAndData | Verdict::Unproven => false,
    }
}

const fn is_unwanted(verdict: Verdict) -> bool {
    match verdict {
        Verdict::FalseSharing | Verdict::Mixed | Verdict::TrueSharing | Verdict::Unproven => true,
        Verdict::LockAndData => false,
    }
}

impl FromStr for FailOn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (gate, share) = match text.split_once(':') {
            Some((gate, share)) => (gate, Some(share)),
            None => (text, None),
        };
        match (gate, share) {
            ("never", None) => Ok(Self::Never),
            ("never", Some(_)) => Err(Error::ShareOfNever),
            ("false-sharing", share) => least_share(gate, share).map(Self::FalseSharing),
            ("any", share) => least_share(gate, share).map(Self::Any),
            _ => Err(Error::UnknownGate { word: text.into() }),
        }
    }
}

fn least_share(gate: &str, share: Option<&str>) -> Result<LeastShare, Error> {
    let Some(word) = share else {
        return Ok(LeastShare::ZERO);
    };
    let number = word.strip_suffix('%').unwrap_or(word).trim();
    number
        .parse()
        .ok()
        .and_then(LeastShare::from_percent)
        .ok_or_else(|| Error::BadShare {
            gate: gate.into(),
            word: word.into(),
        })
}

/// As it is given on the command line.
impl fmt::Display for FailOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gate, least) = match self {
            Self::Never => return f.write_str("never"),
            Self::FalseSharing(least) => ("false-sharing", least),
            Self::Any(least) => ("any", least),
        };
        if *least == LeastShare::ZERO {
            f.write_str(gate)
        } else {
            write!(f, "{gate}:{}%", least.0 * 100.0)
        }
    }
}
