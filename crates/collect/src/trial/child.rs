//! A process of ours, its streams, and what it started.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStderr, ChildStdout, Stdio};

use hitm_model::{ExitStatus, Nanos, Pid};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};

use super::orphans;
use super::output::{Output, Stream};
use super::reaper;
use super::{Command, TrialError};
use crate::clock;
use crate::launch::pidfd;

/// How long a process has to end when it is asked to, before it is killed.
const GRACE: Nanos = Nanos::from_millis(3000);
/// Where the kernel cannot wake us at the end of a process, it is asked this often.
const WITHOUT_PIDFD: Nanos = Nanos::from_millis(1);

/// What a command used, with the children that it waited for: `wait4`, getrusage(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Processor time in user mode.
    pub user: Nanos,
    /// Processor time in the kernel.
    pub system: Nanos,
    /// The most memory that one of its processes had at a time, in bytes.
    pub max_rss: u64,
    /// How often it was taken off a processor before it gave it up.
    pub involuntary_switches: u64,
}

impl Usage {
    /// Processor time in all.
    #[must_use]
    pub fn cpu(&self) -> Nanos {
        self.user.plus(self.system)
    }
}

/// A command that runs, or has ended and is not waited for yet.
#[derive(Debug)]
pub(super) struct Started {
    pid: nix::unistd::Pid,
    pidfd: Option<OwnedFd>,
    stdout: Stream<ChildStdout>,
    stderr: Stream<ChildStderr>,
    /// Our children before; who comes to us meanwhile was left behind by this one.
    strangers_before: Vec<Pid>,
    reaped: bool,
}

impl Started {
    pub(super) fn spawn(command: &Command) -> Result<Self, TrialError> {
        let Some((program, arguments)) = command.words.split_first() else {
            return Err(TrialError::Start {
                command: String::new(),
                source: io::ErrorKind::NotFound.into(),
            });
        };
        let failed = |source| TrialError::Start {
            command: program.to_string_lossy().into_owned(),
            source,
        };
        let strangers_before = orphans::children();
        let mut process = std::process::Command::new(program);
        process
            .args(arguments)
            .envs(command.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(directory) = &command.directory {
            process.current_dir(directory);
        }
        die_with_us(&mut process);
        let mut child = process.spawn().map_err(failed)?;
        reaper::begun(Pid(child.id()));
        let no_pipe = || failed(io::ErrorKind::BrokenPipe.into());
        let stdout = child.stdout.take().ok_or_else(no_pipe)?;
        let stderr = child.stderr.take().ok_or_else(no_pipe)?;
        Ok(Self {
            pid: nix::unistd::Pid::from_raw(child.id().cast_signed()),
            pidfd: pidfd(Pid(child.id())),
            stdout: Stream::new(stdout).map_err(failed)?,
            stderr: Stream::new(stderr).map_err(failed)?,
            strangers_before,
            reaped: false,
        })
    }

    /// Its number, and that of its group.
    pub(super) fn pid(&self) -> Pid {
        Pid(self.pid.as_raw().cast_unsigned())
    }

    /// Takes what it writes, until it has ended or so much time is over; whether it has ended.
    pub(super) fn has_ended(&mut self, within: Nanos) -> Result<bool, TrialError> {
        let within = if self.pidfd.is_some() {
            within
        } else {
            WITHOUT_PIDFD
        };
        let mut fds: Vec<PollFd<'_>> = [self.pidfd.as_ref().map(OwnedFd::as_fd)]
            .into_iter()
            .chain([self.stdout.fd(), self.stderr.fd()])
            .flatten()
            .map(|fd: BorrowedFd<'_>| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let millis = u16::try_from(within.0 / 1_000_000).unwrap_or(u16::MAX);
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(system("waiting for a process")(error.into())),
        }
        drop(fds);
        self.stdout.read();
        self.stderr.read();
        Ok(self.is_zombie())
    }

    fn is_zombie(&self) -> bool {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        !matches!(waitid(Id::Pid(self.pid), flags), Ok(WaitStatus::StillAlive))
    }

    /// Kills what is left of it when it has ended itself; how many processes that were.
    ///
    /// It must not be reaped yet: as long as it is not, nobody else is given the number of its group.
    pub(super) fn end_family(&mut self) -> usize {
        let in_group = orphans::alive_in_group(self.pid);
        // One that is gone needs no signal.
        let _ = killpg(self.pid, Signal::SIGKILL);
        let strangers = orphans::end_new_children(&self.strangers_before, self.pid);
        in_group + strangers
    }

    /// How it ended and what it used.
    pub(super) fn reap(&mut self) -> Result<(ExitStatus, Usage), TrialError> {
        reaper::over(self.pid());
        let reaped = wait4(self.pid).map_err(system("waiting for a process"))?;
        self.reaped = true;
        orphans::reap_group(self.pid);
        Ok(reaped)
    }

    /// What it wrote; there is nothing more to come.
    pub(super) fn outputs(&mut self) -> (Output, Output) {
        (self.stdout.finish(), self.stderr.finish())
    }

    /// Asks it to end, and kills it if it does not; what it wrote.
    pub(super) fn end(mut self) -> (Output, Output) {
        self.stop();
        self.outputs()
    }

    fn stop(&mut self) {
        if self.reaped {
            return;
        }
        let _ = killpg(self.pid, Signal::SIGTERM);
        // A stopped process sees no other signal.
        let _ = killpg(self.pid, Signal::SIGCONT);
        let deadline = clock::now().plus(GRACE);
        while clock::now() < deadline {
            // A failed wait is followed by the kill below.
            if self.has_ended(Nanos::from_millis(50)).unwrap_or(true) {
                break;
            }
        }
        let _ = kill(self.pid, Signal::SIGKILL);
        while !self.is_zombie() {
            let _ = self.has_ended(Nanos::from_millis(50));
        }
        self.end_family();
        let _ = self.reap();
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A server that runs while others are measured.
#[derive(Debug)]
pub struct Service(Started);

impl Service {
    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(command: &Command) -> Result<Self, TrialError> {
        Started::spawn(command).map(Self)
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.0.pid()
    }

    /// Processor time that it used so far, with the children that it waited for (proc(5), `/proc/PID/stat`).
    #[must_use]
    pub fn cpu(&self) -> Nanos {
        let text = std::fs::read(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        // Behind the name, which may contain anything, the state is the third field of the file; 14 to 17 are the times.
        let behind = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let times = behind.split(' ').skip(11).take(4);
        let ticks: u64 = times.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        Nanos(ticks.saturating_mul(super::accounts::tick().0))
    }

    /// Takes what it writes for so long.
    ///
    /// # Errors
    /// If it has ended, which a server does not do by itself.
    pub fn attend(&mut self, for_: Nanos) -> Result<(), TrialError> {
        if !self.0.has_ended(for_)? {
            return Ok(());
        }
        self.0.end_family();
        let (status, _) = self.0.reap()?;
        Err(TrialError::ServiceEnded {
            status: match status {
                ExitStatus::Code(code) => format!("exit code {code}"),
                ExitStatus::Signal(signal) => format!("killed by signal {signal}"),
            },
            stderr: self.0.outputs().1,
        })
    }

    /// Ends it, with all it started; what it wrote.
    pub fn end(self) -> (Output, Output) {
        self.0.end()
    }
}

/// If we are killed, it is too.
#[expect(unsafe_code, reason = "between fork and execve")]
fn die_with_us(process: &mut std::process::Command) {
    let parent = nix::unistd::getpid();
    let ask = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        // We may have ended before the line above.
        if nix::unistd::getppid() == parent {
            Ok(())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    };
    // SAFETY: two system calls that are async-signal-safe; no memory is allocated.
    unsafe { process.pre_exec(ask) };
}

/// Waits for a process; how it ended, and what it used.
#[expect(unsafe_code, reason = "the kernel's call has no wrapper")]
fn wait4(pid: nix::unistd::Pid) -> io::Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: all zeros is a valid value of a structure of numbers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both places are ours and of the types that the call writes.
        let waited = unsafe { libc::wait4(pid.as_raw(), &raw mut status, 0, &raw mut usage) };
        if waited == pid.as_raw() {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let time = |time: libc::timeval| {
        let micros = time.tv_sec * 1_000_000 + time.tv_usec;
        Nanos(u64::try_from(micros).unwrap_or_default() * 1000)
    };
    let count = |number: libc::c_long| u64::try_from(number).unwrap_or_default();
    let ended = if libc::WIFSIGNALED(status) {
        ExitStatus::Signal(libc::WTERMSIG(status))
    } else {
        ExitStatus::Code(libc::WEXITSTATUS(status))
    };
    let usage = Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        max_rss: count(usage.ru_maxrss) * 1024,
        involuntary_switches: count(usage.ru_nivcsw),
    };
    Ok((ended, usage))
}

fn system(doing: &'static str) -> impl Fn(io::Error) -> TrialError {
    move |source| TrialError::System { doing, source }
}
