//! Runs of layouts as processes: each layout's program is put where the user's would be, so that all that a program can see
//! of itself is the same.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hitm_collect::trial::{Command, run};
use hitm_experiment::shake::{Arm, Runner};
use hitm_experiment::{Metric, Seconds, Trial};

use super::place::MARK;
use crate::commands::compare::executor::{said, trial};

/// Bytes of the environment's variable itself, and of its end.
const NAME: &str = "HITM_SHAKE_ENVIRONMENT";

/// What a layout takes to run.
#[derive(Clone, Debug)]
pub(super) struct Runnable {
    /// Its program.
    pub program: PathBuf,
    /// Bytes that its environment is larger.
    pub environment: u32,
}

/// Starts a fresh process for every run.
pub(super) struct Runs<'a> {
    pub(super) words: Vec<OsString>,
    pub(super) directory: PathBuf,
    /// Where a program is put before it is run.
    pub(super) program: &'a Path,
    pub(super) base: Runnable,
    pub(super) variants: Vec<Runnable>,
    pub(super) metric: &'a Metric,
    pub(super) timeout: Duration,
    /// Where hitm works.
    pub(super) place: &'a Path,
    pub(super) stop: &'a AtomicBool,
    pub(super) began: Instant,
}

impl Runner for Runs<'_> {
    type Failure = String;

    fn run(&mut self, arm: Arm) -> Result<Trial, String> {
        let runnable = match arm {
            Arm::Base | Arm::BaseAgain => &self.base,
            Arm::Variant(number) => self
                .variants
                .get(number)
                .ok_or("there is no such variant")?,
        };
        put(&runnable.program, self.program)
            .map_err(|error| format!("cannot put its program in place: {error}"))?;
        let mut variables: Vec<(OsString, OsString)> = vec![(MARK.into(), self.place.into())];
        if runnable.environment > 0 {
            let room = (runnable.environment as usize).saturating_sub(NAME.len() + 2);
            variables.push((NAME.into(), "x".repeat(room).into()));
        }
        let command = Command {
            words: self.words.clone(),
            variables,
            directory: Some(self.directory.clone()),
        };
        let timeout = Some(self.timeout.into());
        let run = run(&command, timeout, None, self.stop).map_err(|error| said(&error))?;
        trial(self.metric, &run)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn spent(&self) -> Seconds {
        Seconds(self.began.elapsed().as_secs_f64())
    }
}

/// Makes one file be another: a second name of it, so that nothing is copied between runs.
fn put(program: &Path, place: &Path) -> std::io::Result<()> {
    let mut beside = OsString::from(place);
    beside.push(".hitm");
    let beside = PathBuf::from(beside);
    // Left over from a run that was interrupted between the two steps.
    let _ = fs::remove_file(&beside);
    fs::hard_link(program, &beside)?;
    fs::rename(&beside, place)?;
    // Of two names of one file, rename leaves both.
    let _ = fs::remove_file(&beside);
    Ok(())
}
