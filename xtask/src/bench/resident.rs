//! How long a command takes, how much memory it needs at most, and how it ends.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// One run.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    pub(super) seconds: f64,
    /// The most that the process itself, not its children, ever had resident: read every few milliseconds.
    pub(super) peak_mib: f64,
    pub(super) ended: Ended,
}

/// How a command ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Ended {
    Well,
    /// It failed or crashed, with the first that it said.
    Badly(String),
    /// It was killed when its time was over.
    TooLate,
}

impl Cost {
    /// The run, if the command succeeded.
    pub(super) fn good(self, command: &Command) -> Result<Self> {
        match &self.ended {
            Ended::Well => Ok(self),
            Ended::Badly(how) => anyhow::bail!("{command:?}: {how}"),
            Ended::TooLate => anyhow::bail!("{command:?}: not done in {:.0} s", self.seconds),
        }
    }
}

/// Runs a command without its output for at most `limit`.
pub(super) fn run(command: &mut Command, limit: Duration) -> Result<Cost> {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {command:?}"))?;
    let errors = child.stderr.take();
    // Read while it runs, or it would wait for us; the first line says what was wrong.
    let first_words = thread::spawn(move || {
        let lines = errors
            .map(|errors| BufReader::new(errors).split(b'\n').map_while(Result::ok))
            .into_iter()
            .flatten();
        let mut said = lines.filter(|line| !line.is_empty());
        let first = said.next();
        said.for_each(drop);
        let first = first.unwrap_or_default();
        String::from_utf8_lossy(&first).trim().to_owned()
    });
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0.0;
    let status = loop {
        peak_kib = peak(&status_file).unwrap_or(peak_kib);
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let seconds = began.elapsed().as_secs_f64();
    let first_words = first_words.join().unwrap_or_default();
    let ended = match status {
        None => Ended::TooLate,
        Some(status) if status.success() => Ended::Well,
        Some(status) => {
            let mut how = match status.signal() {
                Some(signal) => format!("crashed with signal {signal}"),
                None => format!("failed, {status}"),
            };
            if !first_words.is_empty() {
                how.push_str(": ");
                how.extend(first_words.chars().take(80));
            }
            Ended::Badly(how)
        }
    };
    Ok(Cost {
        seconds,
        peak_mib: peak_kib / 1024.0,
        ended,
    })
}

fn peak(status_file: &str) -> Option<f64> {
    let text = fs::read_to_string(status_file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
