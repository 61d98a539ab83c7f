//! What the lines do while a command runs, for commands that measure it and want to know why.
//!
//! `hitm run` itself makes the recording, in a process of its own, so that what is said here is what the user sees who
//! types the same. What the program prints is kept from the terminal, and nothing of it is left behind.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, bail};
use hitm_analysis::Options;
use hitm_collect::trial::{Command, Output, TrialError, run};
use hitm_model::{ExitStatus, Nanos, Report};
use tempfile::TempDir;

use super::show::analyse_by;
use crate::load::RecordingFile;

/// A recording needs no longer than its program to be written to its end.
const TO_FINISH: Nanos = Nanos::from_millis(20_000);
/// The mark of what hitm itself says beside the program.
const OURS: &str = "hitm: ";

/// Runs a command under `hitm run`, at most for so long, and says what its lines do: every finding, however small.
///
/// # Errors
/// If it cannot be started or recorded: with what `hitm run` says, and what to type next.
pub(super) fn evidence(
    command: &Command,
    at_most: Nanos,
    stop: &AtomicBool,
) -> anyhow::Result<Report> {
    let recorded = Recorded::new()?;
    let recording = Command {
        words: recorded.words(&command.words, Some(at_most)),
        ..command.clone()
    };
    let ran = run(&recording, Some(at_most.plus(TO_FINISH)), None, stop);
    match ran {
        Ok(run) if run.status == ExitStatus::Code(0) => {
            let report = recorded.report()?;
            // One that fails does something else than what was measured; one that we ended at its limit does not.
            if let Some(ExitStatus::Code(code @ 1..)) = report.child {
                bail!(
                    "under hitm run it ended with exit code {code}: {}",
                    run.stderr.last_lines(3).trim()
                );
            }
            Ok(report)
        }
        Ok(run) => bail!("{}", what_hitm_said(&run.stderr)),
        Err(TrialError::TimeOut { stderr, .. }) => bail!(
            "the recording did not end in time: {}",
            what_hitm_said(&stderr)
        ),
        Err(error) => Err(error.into()),
    }
}

/// A recording that another process makes.
#[derive(Debug)]
pub(super) struct Recorded {
    folder: TempDir,
}

impl Recorded {
    /// A place for it.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()
            .context("cannot make a folder for a recording (make room, or set TMPDIR)")?;
        Ok(Self { folder })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("evidence.hitm")
    }

    /// The command that runs these words and records them, at most for so long.
    pub(super) fn words(&self, words: &[OsString], at_most: Option<Nanos>) -> Vec<OsString> {
        let mut all: Vec<OsString> = ["/proc/self/exe", "run", "--no-report", "-o"]
            .map(OsString::from)
            .into();
        all.push(self.path().into());
        if let Some(at_most) = at_most {
            all.extend(["--for".into(), at_most.as_secs_f64().to_string().into()]);
        }
        all.push("--".into());
        all.extend_from_slice(words);
        all
    }

    /// What was recorded.
    ///
    /// # Errors
    /// If nothing was.
    pub(super) fn report(&self) -> anyhow::Result<Report> {
        let recording = RecordingFile::open(&self.path())
            .context("nothing was recorded (try the command with: hitm run --)")?;
        let options = Options {
            min_share: 0.0,
            communication: true,
            ..Options::default()
        };
        Ok(analyse_by(&recording, &options, None))
    }
}

/// What hitm said on its standard error, which is the program's too.
pub(super) fn what_hitm_said(stderr: &Output) -> String {
    let text = stderr.text();
    match text.rfind(OURS) {
        Some(at) => {
            let lines = text[at + OURS.len()..].lines();
            lines.map(str::trim).collect::<Vec<_>>().join("; ")
        }
        None => format!("hitm run failed: {}", stderr.last_lines(3).trim()),
    }
}
