//! Whether a report makes a build fail.

use std::fmt;
use std::str::FromStr;

use hitm_model::{Caveat, Finding, Report, Verdict};

use crate::Error;
use crate::measured::measured_share;

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
/// its [worst thread](hitm_model::Severity::worst_thread), because a rare victim is one too. Where its cost was measured
/// for all of its compared threads and is lower, it is the measured share. Findings that the report does not list count
/// for nothing.
#[must_use]
pub fn gate(report: &Report, fail_on: FailOn) -> bool {
    report
        .findings
        .iter()
        .any(|finding| counts(finding, fail_on))
}

/// Why `report` cannot pass the gate although it has no finding that `fail_on` asks for: there was too little to look
/// at. `None` where it can, or where nothing was asked for.
///
/// A gate that passes on no evidence would pass on every program that is not looked at.
#[must_use]
pub fn cannot_judge(report: &Report, fail_on: FailOn) -> Option<String> {
    if fail_on == FailOn::Never {
        return None;
    }
    let totals = &report.totals;
    let not_whole = report.caveats.iter().find(|caveat| is_not_whole(caveat));
    let why = |caveat: &Caveat| format!("{}; {}", caveat.observation(), caveat.remedy());
    if let Some(caveat) = not_whole {
        return Some(why(caveat));
    }
    let undecoded = Caveat::Undecoded {
        samples: totals.undecoded,
        of: totals.samples,
    };
    let unreadable = |caveat: &&Caveat| matches!(caveat, Caveat::ProgramUnreadable { .. });
    if let Some(caveat) = report.caveats.iter().find(unreadable) {
        return Some(why(caveat));
    }
    let seen = match totals.samples {
        0 => &Caveat::NoSamples,
        all if totals.undecoded >= all.div_ceil(2) => &undecoded,
        _ => return None,
    };
    // A binary that could not be used is the better explanation, and its remedy is the one that helps.
    match report.caveats.iter().find(|caveat| is_no_code(caveat)) {
        Some(cause) => Some(format!("{}: {}", seen.observation(), why(cause))),
        None => Some(why(seen)),
    }
}

/// Whether a part of the recording is missing.
const fn is_not_whole(caveat: &Caveat) -> bool {
    matches!(
        caveat,
        Caveat::RecordingTruncated
            | Caveat::RecordingDamaged { .. }
            | Caveat::RecordingStopped { .. }
            | Caveat::RecordingNewer { events: 1.., .. }
    )
}

/// Whether the code of a binary was not seen.
const fn is_no_code(caveat: &Caveat) -> bool {
    matches!(
        caveat,
        Caveat::BuildIdDiffers { .. }
            | Caveat::BinaryUnreadable { .. }
            | Caveat::BinaryDamaged { .. }
            | Caveat::ForeignArchitecture { .. }
    )
}

fn counts(finding: &Finding, fail_on: FailOn) -> bool {
    let (verdict_counts, least) = match fail_on {
        FailOn::Never => return false,
        FailOn::FalseSharing(least) => (is_false_sharing(finding.verdict), least),
        FailOn::Any(least) => (is_unwanted(finding.verdict), least),
    };
    verdict_counts && share(finding) >= least.0
}

/// The share of time that a finding takes at most. What was sampled is an upper bound, so that a measurement never raises
/// it.
fn share(finding: &Finding) -> f64 {
    let sampled = finding.severity.share().max(finding.severity.worst_thread);
    measured_share(finding).map_or(sampled, |measured| measured.min(sampled))
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
