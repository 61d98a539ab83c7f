//! Runs the `hitm` that this test was built with, in a directory of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use hitm_testkit::{Outcome, run_limited};
use serde_json::Value;
use tempfile::TempDir;

const TIME_LIMIT: Duration = Duration::from_secs(90);
/// Far longer than what is waited for takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until it is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < PATIENCE, "not within a minute: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A directory in which commands leave their recordings and reports.
pub(crate) struct Session {
    dir: TempDir,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs hitm to its end.
    pub(crate) fn hitm<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        run(self.command().args(arguments))
    }

    /// Runs hitm to its end, which it reaches with an exit code and after saying some texts.
    pub(crate) fn check(&self, arguments: &[&str], code: i32, says: &[&str]) -> Outcome {
        let outcome = self.hitm(arguments);
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.status.code(), Some(code), "{arguments:?}: {all}");
        for text in says {
            assert!(all.contains(text), "{arguments:?}: no `{text}` in: {all}");
        }
        assert!(!all.contains("panicked"), "{all}");
        outcome
    }

    /// Runs hitm to its end, on a fixture that is to run for so many milliseconds.
    pub(crate) fn hitm_for<S: AsRef<OsStr>>(
        &self,
        milliseconds: u32,
        arguments: impl IntoIterator<Item = S>,
    ) -> Outcome {
        let mut command = self.command();
        run(command
            .env("DUEL_MS", milliseconds.to_string())
            .args(arguments))
    }

    /// Runs a shell command to its end, in the same place.
    pub(crate) fn shell(&self, text: &str) -> Outcome {
        run(Command::new("sh")
            .current_dir(self.dir.path())
            .env("NO_COLOR", "1")
            .args(["-c", text]))
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hitm"));
        command.current_dir(self.dir.path()).env("NO_COLOR", "1");
        command
    }

    /// `hitm run` on a program, thread by thread, with the report it wrote.
    pub(crate) fn run(&self, program: &Path, arguments: &[&str]) -> (Outcome, Value) {
        let mut words: Vec<&OsStr> = ["run", "--json=report.json", "--threads-by", "tid", "--"]
            .map(OsStr::new)
            .into();
        words.push(program.as_os_str());
        words.extend(arguments.iter().map(OsStr::new));
        let outcome = self.hitm(words);
        assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
        let report = self.json("report.json");
        (outcome, report)
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&std::fs::read_to_string(self.path(name)).unwrap()).unwrap()
    }
}

pub(crate) fn run(command: &mut Command) -> Outcome {
    let outcome = run_limited(command, TIME_LIMIT).unwrap();
    assert!(!outcome.timed_out, "{command:?} did not end: {outcome:?}");
    outcome
}
