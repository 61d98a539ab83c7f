//! Programs that are ended whatever happens: at their time limit, at Ctrl-C, and when an error ends the task.

use std::io::{self, BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// A hitm that is told to end ends its program first, which it gives six seconds.
const PATIENCE: Duration = Duration::from_secs(8);
const POLL: Duration = Duration::from_millis(5);

/// Whether somebody wants the task to end.
#[derive(Clone)]
pub(super) struct Interrupts {
    flag: Arc<AtomicBool>,
}

impl Interrupts {
    /// From here on Ctrl-C and its like set a flag.
    pub(super) fn watch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag))
                .context("cannot watch for Ctrl-C")?;
        }
        Ok(Self { flag })
    }

    /// An error if the task is to end.
    pub(super) fn check(&self) -> Result<()> {
        if self.flag.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

/// A program that runs, and is ended with the value.
pub(super) struct Running {
    child: Child,
    pid: Pid,
    stdout: Option<BufReader<ChildStdout>>,
    stderr: Option<JoinHandle<String>>,
    /// For messages.
    line: String,
}

/// How a program ended and what it printed.
pub(super) struct Ended {
    /// The command.
    line: String,
    status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Running {
    /// Starts a program in a process group of its own.
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let line: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let line = line.join(" ");
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {line}"))?;
        Ok(Self {
            pid: Pid::from_raw(i32::try_from(child.id())?),
            stdout: child.stdout.take().map(BufReader::new),
            stderr: child.stderr.take().map(read_stderr),
            child,
            line,
        })
    }

    pub(super) fn pid(&self) -> Pid {
        self.pid
    }

    /// The next line of its standard output; empty if there is none.
    pub(super) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if let Some(stdout) = &mut self.stdout {
            stdout.read_line(&mut line)?;
        }
        Ok(line)
    }

    /// Throws away what it prints, so that it never waits for a reader.
    pub(super) fn drain(&mut self) {
        if let Some(mut stdout) = self.stdout.take() {
            thread::spawn(move || io::copy(&mut stdout, &mut io::sink()));
        }
    }

    /// Waits for its end. An error if that takes too long, or if the task is to end.
    pub(super) fn wait(mut self, limit: Duration, interrupts: &Interrupts) -> Result<Ended> {
        let began = Instant::now();
        let stdout = self
            .stdout
            .take()
            .map(|stdout| thread::spawn(|| text(stdout)));
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            interrupts.check()?;
            if began.elapsed() > limit {
                bail!("{}: not done after {} s", self.line, limit.as_secs());
            }
            thread::sleep(POLL);
        };
        let joined = |handle: Option<JoinHandle<String>>| {
            handle
                .and_then(|handle| handle.join().ok())
                .unwrap_or_default()
        };
        Ok(Ended {
            line: self.line.clone(),
            status,
            stdout: joined(stdout),
            stderr: joined(self.stderr.take()),
        })
    }

    /// Asks its group to end, as Ctrl-C would, waits, and kills what is left of its group.
    fn end(&mut self) {
        let began = Instant::now();
        // Unreaped until `try_wait` says so: the number cannot be anybody else's.
        let mut signal = Some(Signal::SIGINT);
        while let Ok(None) = self.child.try_wait() {
            if let Some(signal) = signal.take() {
                let _ = killpg(self.pid, signal);
            }
            if began.elapsed() > PATIENCE {
                let _ = killpg(self.pid, Signal::SIGKILL);
                let _ = self.child.wait();
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Runs a program to its end, which must be a success.
pub(super) fn run(
    command: &mut Command,
    limit: Duration,
    interrupts: &Interrupts,
) -> Result<Ended> {
    let ended = run_to_end(command, limit, interrupts)?;
    if !ended.status.success() {
        bail!("{}", ended.failure());
    }
    Ok(ended)
}

/// Runs a program to its end, however it ends.
pub(super) fn run_to_end(
    command: &mut Command,
    limit: Duration,
    interrupts: &Interrupts,
) -> Result<Ended> {
    interrupts.check()?;
    Running::start(command)?.wait(limit, interrupts)
}

impl Ended {
    /// What failed, how, and the last that it said.
    pub(super) fn failure(&self) -> String {
        let last = |text: &str| text.trim().lines().next_back().map(str::to_owned);
        let said = last(&self.stderr).or_else(|| last(&self.stdout));
        format!(
            "{}: {}: {}",
            self.line,
            self.status,
            said.unwrap_or_default()
        )
    }
}

fn read_stderr(stderr: ChildStderr) -> JoinHandle<String> {
    thread::spawn(|| text(stderr))
}

fn text(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    // What came before an error is still the output.
    let _ = from.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use nix::sys::signal::kill;

    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// No shell, which may lose a signal while it starts.
    fn sleep() -> Command {
        let mut command = Command::new("sleep");
        command.arg("1000");
        command
    }

    fn never() -> Interrupts {
        Interrupts {
            flag: Arc::new(AtomicBool::new(false)),
        }
    }

    fn is_gone(pid: Pid) -> bool {
        kill(pid, None).is_err()
    }

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn output_and_failure_are_told() {
        let ended = run(&mut shell("echo out; echo err >&2"), LIMIT, &never()).unwrap();
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("out\n", "err\n")
        );
        let failed = run(&mut shell("echo why >&2; exit 3"), LIMIT, &never());
        let message = format!("{:#}", failed.err().unwrap());
        assert!(message.ends_with("exit status: 3: why"), "{message}");
    }

    #[test]
    fn lines_are_read_while_it_runs() {
        let mut running = Running::start(&mut shell("echo ready; read never")).unwrap();
        assert_eq!(running.line().unwrap(), "ready\n");
        assert_eq!(running.line().unwrap(), "");
    }

    #[test]
    fn a_program_is_ended_with_its_value() {
        let running = Running::start(&mut sleep()).unwrap();
        let pid = running.pid();
        drop(running);
        assert!(is_gone(pid));
    }

    #[test]
    fn an_interrupt_and_the_time_limit_end_it() {
        let interrupts = never();
        interrupts.flag.store(true, Ordering::Relaxed);
        let running = Running::start(&mut sleep()).unwrap();
        let pid = running.pid();
        assert!(running.wait(LIMIT, &interrupts).is_err());
        assert!(is_gone(pid));
        let running = Running::start(&mut sleep()).unwrap();
        let pid = running.pid();
        assert!(running.wait(Duration::ZERO, &never()).is_err());
        assert!(is_gone(pid));
    }
}
