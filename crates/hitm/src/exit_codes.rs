//! What hitm's exit codes mean. The child's own status is reported, never returned.

use std::process::ExitCode;

use hitm_collect::CollectError;
use hitm_collect::prove::Proved;
use hitm_model::{Evidence, GroupOutcome, Report, StopReason};

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: findings at or above `--fail-on`.
    Gate,
    /// 2: wrong usage, bad input, an error of ours, or a gate that has nothing to judge by.
    Error,
    /// 3: the machine refused (perf, tools, permissions).
    Refused,
}

impl Exit {
    /// The number.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Gate => 1,
            Self::Error => 2,
            Self::Refused => 3,
        }
    }

    /// The code of a run that ended so: half a recording is no success. Findings in that half are findings all the same.
    pub(crate) fn after(self, reason: &StopReason) -> Self {
        match (self, reason) {
            (Self::Done, StopReason::WriteFailed(_)) => Self::Error,
            _ => self,
        }
    }

    /// The code of a command that was also to prove. That there was nothing to prove is an answer, unless the user named
    /// what there is not.
    pub(crate) fn proved(self, proved: &Proved, named: bool, report: &Report) -> Self {
        match (self, proved) {
            (Self::Done, Proved::Refused(_) | Proved::Nothing(_)) if named => Self::Error,
            (Self::Done, Proved::Refused(_)) => Self::Refused,
            (Self::Done, Proved::Windows { .. }) if every_group_was_refused(report) => {
                Self::Refused
            }
            _ => self,
        }
    }
}

fn every_group_was_refused(report: &Report) -> bool {
    let of_findings = report.findings.iter().flat_map(|finding| {
        let evidence = finding.evidence.iter();
        evidence.filter_map(|evidence| match evidence {
            Evidence::CoLocated(group) => Some(group),
            Evidence::Sampled(_) => None,
        })
    });
    let mut groups = of_findings.chain(&report.compared).peekable();
    groups.peek().is_some() && groups.all(|group| matches!(group.outcome, GroupOutcome::Refused(_)))
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// The exit code for an error: a refusal by the machine is told apart from everything else.
pub(crate) fn of_error(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<CollectError>() {
        Some(error) if error.is_refusal() => Exit::Refused,
        _ => Exit::Error,
    }
}
