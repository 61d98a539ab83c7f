//! Runs of a row's sides as processes.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hitm_collect::trial::{Command, Run, Service, TrialError, run};
use hitm_experiment::{
    Busiest, CommandSpec, Executor, Health, Measured, Metric, Purpose, RowSpec, Seconds, Side,
    Trial,
};
use hitm_model::{ExitStatus, Nanos, Report};

use super::super::evidence::{Recorded, evidence, what_hitm_said};

/// How long a server may take until it is ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often it is asked.
const ASK_EVERY: Nanos = Nanos::from_millis(50);
/// Lines of what a failed command said that are shown.
const SHOWN_LINES: usize = 5;

/// Starts a fresh process for every run.
pub(super) struct Processes<'a> {
    row: &'a RowSpec,
    timeout: Nanos,
    stop: &'a AtomicBool,
    began: Instant,
}

impl<'a> Processes<'a> {
    pub(super) fn new(row: &'a RowSpec, timeout: Seconds, stop: &'a AtomicBool) -> Self {
        Self {
            row,
            timeout: Nanos((timeout.0 * 1e9) as u64),
            stop,
            began: Instant::now(),
        }
    }
}

impl Executor for Processes<'_> {
    type Failure = String;

    fn run(&mut self, side: Side, _: Purpose) -> Result<Trial, String> {
        let spec = self.row.side(side);
        let server = spec
            .server
            .as_ref()
            .map(|words| self.serve(spec, words))
            .transpose()
            .map_err(|error| format!("the server {error}"))?;
        let run = run(
            &command(spec, &spec.words),
            Some(self.timeout),
            server.as_ref(),
            self.stop,
        );
        if let Some(mut server) = server {
            // What failed first is the cause: a client says little when its server is gone.
            server
                .attend(Nanos(0))
                .map_err(|error| format!("the server {}", said(&error)))?;
            server.end();
        }
        let run = run.map_err(|error| said(&error))?;
        trial(&self.row.metric, &run)
    }

    fn spent(&self) -> Seconds {
        Seconds(self.began.elapsed().as_secs_f64())
    }
}

impl Processes<'_> {
    /// Records a run of a side: its server, if it has one, while the client runs.
    pub(super) fn record(&self, side: Side) -> Result<Report, String> {
        let spec = self.row.side(side);
        let Some(server) = &spec.server else {
            return evidence(&command(spec, &spec.words), self.timeout, self.stop)
                .map_err(|error| format!("{error:#}"));
        };
        let recorded = Recorded::new().map_err(|error| format!("{error:#}"))?;
        let words: Vec<OsString> = server.iter().map(OsString::from).collect();
        let recording = Command {
            words: recorded.words(&words, None),
            ..command(spec, server)
        };
        let mut server = self.serve_by(spec, &recording)?;
        let client = run(
            &command(spec, &spec.words),
            Some(self.timeout),
            Some(&server),
            self.stop,
        );
        let alive = server.attend(Nanos(0));
        let (_, stderr) = server.end();
        alive.map_err(|_| what_hitm_said(&stderr))?;
        succeeded(&client.map_err(|error| said(&error))?)?;
        recorded.report().map_err(|error| format!("{error:#}"))
    }

    /// Starts a side's server and waits until it is ready.
    fn serve(&self, spec: &CommandSpec, words: &[String]) -> Result<Service, String> {
        self.serve_by(spec, &command(spec, words))
    }

    /// The same by a command that starts it.
    fn serve_by(&self, spec: &CommandSpec, by: &Command) -> Result<Service, String> {
        // A server of somebody else on the same port would answer, and be measured.
        if let Some(ready) = &spec.ready
            && self.is_ready(spec, ready)?
        {
            return Err(format!(
                "is not started: {} succeeds already, so another one answers (is one left over? give it another port)",
                hitm_model::shell_command(ready)
            ));
        }
        let mut server = Service::start(by).map_err(|error| said(&error))?;
        let Some(ready) = &spec.ready else {
            return Ok(server);
        };
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            server.attend(ASK_EVERY).map_err(|error| said(&error))?;
            if self.is_ready(spec, ready)? {
                // Who answered may be somebody else, if ours could not have the port.
                server.attend(ASK_EVERY).map_err(|error| said(&error))?;
                return Ok(server);
            }
            if Instant::now() >= deadline {
                return Err(format!(
                    "was not ready within {} s by: {}",
                    READY_WITHIN.as_secs(),
                    hitm_model::shell_command(ready)
                ));
            }
        }
    }

    fn is_ready(&self, spec: &CommandSpec, ready: &[String]) -> Result<bool, String> {
        let asked = run(
            &command(spec, ready),
            Some(Nanos::from_millis(5000)),
            None,
            self.stop,
        );
        match asked {
            Ok(run) => Ok(run.status == ExitStatus::Code(0)),
            Err(TrialError::TimeOut { .. }) => Ok(false),
            Err(error) => Err(said(&error)),
        }
    }
}

/// A command as a side runs it.
pub(super) fn command(spec: &CommandSpec, words: &[String]) -> Command {
    let os = |text: &String| OsString::from(text);
    Command {
        words: words.iter().map(os).collect(),
        variables: spec
            .variables
            .iter()
            .map(|(name, value)| (os(name), os(value)))
            .collect(),
        directory: spec.directory.as_ref().map(PathBuf::from),
    }
}

/// What a run gave, if it succeeded.
pub(in crate::commands) fn trial(metric: &Metric, run: &Run) -> Result<Trial, String> {
    succeeded(run)?;
    Ok(Trial {
        value: value(metric, run)?,
        health: health(run),
    })
}

/// A run that failed measured something else than one that did not.
fn succeeded(run: &Run) -> Result<(), String> {
    let how = match run.status {
        ExitStatus::Code(0) => return Ok(()),
        ExitStatus::Code(code) => format!("ended with exit code {code}"),
        ExitStatus::Signal(signal) => format!("was killed by signal {signal}"),
    };
    let stderr = run.stderr.last_lines(SHOWN_LINES);
    let last = if stderr.trim().is_empty() {
        run.stdout.last_lines(SHOWN_LINES)
    } else {
        stderr
    };
    Err(with_lines(how, &last))
}

fn value(metric: &Metric, run: &Run) -> Result<f64, String> {
    let seconds = |nanos: Nanos| Seconds(nanos.as_secs_f64());
    let measured = Measured {
        wall: seconds(run.wall),
        cpu: seconds(run.usage.cpu()),
        max_rss: run.usage.max_rss,
        stdout: &run.stdout.text(),
        stderr: &run.stderr.text(),
    };
    metric
        .of(&measured)
        .map_err(|error| with_lines(error.to_string(), &run.stdout.last_lines(SHOWN_LINES)))
}

fn health(run: &Run) -> Health {
    let seconds = |nanos: Nanos| Seconds(nanos.as_secs_f64());
    Health {
        wall: seconds(run.wall),
        cpu: seconds(run.usage.cpu()),
        processors: run.others.processors,
        stolen: run.others.stolen.map(seconds),
        queued: run.others.queued.map(seconds),
        foreign: run.others.foreign.map(seconds),
        involuntary_switches: run.usage.involuntary_switches,
        megahertz: run.others.megahertz,
        max_rss: run.usage.max_rss,
        left_behind: run.left_behind,
        busiest: run.busiest.map(|busiest| Busiest {
            client: busiest.client,
            server: busiest.server,
        }),
    }
}

/// An error, what the command wrote last, and what to do.
pub(in crate::commands) fn said(error: &TrialError) -> String {
    let mut text = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        text = format!("{text}: {source}");
    }
    if let TrialError::TimeOut { stderr, .. } | TrialError::ServiceEnded { stderr, .. } = error {
        text = with_lines(text, &stderr.last_lines(SHOWN_LINES));
    }
    format!("{text} (try: {})", error.remedy())
}

fn with_lines(text: String, lines: &str) -> String {
    if lines.trim().is_empty() {
        text
    } else {
        format!("{text}; it wrote: {}", lines.trim())
    }
}
