//! Starts a program and holds it back just before it executes, so that the sampler can be armed first.

mod family;
mod program;

use std::{
    ffi::{CString, OsStr, OsString},
    fs::File,
    io::{self, Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd},
        unix::ffi::{OsStrExt as _, OsStringExt as _},
    },
    path::PathBuf,
};

use hitm_model::{ExitStatus, Nanos, Pid};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::{
        signal::{self, Signal},
        wait::{self, WaitPidFlag, WaitStatus},
    },
};

use self::family::Family;
pub(crate) use self::program::check as check_program;
use crate::CollectError;

/// How long a program has to end after each of the signals before the next, stronger one.
const GRACE: Nanos = Nanos::from_millis(3000);

/// The signals that end a program, in this order.
const SIGNALS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGKILL];

/// What to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Launch<'a> {
    /// The command and its arguments.
    pub(crate) command: &'a [OsString],
    /// Its environment.
    pub(crate) environment: &'a [(OsString, OsString)],
    /// Variables on top of that, see [`Sampler::environment`](crate::sampler::Sampler::environment).
    pub(crate) extra: &'a [(OsString, OsString)],
    /// Whether its standard output goes to our standard error.
    pub(crate) stdout_to_stderr: bool,
}

/// A program that we have started.
#[derive(Debug)]
pub(crate) struct Child {
    pid: Pid,
    path: PathBuf,
    /// Closed or written to: the child goes on.
    go: Option<File>,
    /// What `execve` failed with comes out of it.
    failure: File,
    pidfd: Option<OwnedFd>,
    status: Option<ExitStatus>,
    /// How many of [`SIGNALS`] were sent, and when the last.
    ending: Option<(usize, Nanos)>,
    /// The processes that it made, once it is being ended.
    family: Family,
}

/// How a program is asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Urgency {
    /// From the beginning, with time to obey.
    Usual,
    /// It heard of it already: Ctrl-C goes to all that the terminal shows.
    Told,
    /// The user lost patience.
    Now,
}

impl Child {
    /// Starts the program up to just before its `execve`.
    pub(crate) fn hold(launch: Launch<'_>) -> Result<Self, CollectError> {
        let path = program::find(launch.command, launch.environment)?;
        program::check(&path)?;
        program::check_user(&path)?;
        let go = pipe()?;
        let failure = pipe()?;
        let arguments = launch
            .command
            .iter()
            .map(|argument| c_string(argument.clone().into_vec()))
            .collect::<Result<Vec<_>, _>>()?;
        let environment = environment(launch.environment, launch.extra)
            .into_iter()
            .map(c_string)
            .collect::<Result<Vec<_>, _>>()?;
        let path_c = c_string(path.as_os_str().as_bytes().to_vec())?;
        let start = held::Start {
            path: &path_c,
            arguments: &held::pointers(&arguments),
            environment: &held::pointers(&environment),
            stdout_to_stderr: launch.stdout_to_stderr,
            go: go.0.as_raw_fd(),
            not_go: go.1.as_raw_fd(),
            failure: failure.1.as_raw_fd(),
        };
        let pid = start.fork().map_err(|source| CollectError::System {
            doing: "starting a process",
            source,
        })?;
        Ok(Self {
            pid,
            path,
            go: Some(go.1.into()),
            failure: failure.0.into(),
            pidfd: pidfd(pid),
            status: None,
            ending: None,
            family: Family::default(),
        })
    }

    /// The process.
    pub(crate) const fn pid(&self) -> Pid {
        self.pid
    }

    /// A descriptor that becomes readable when the process ends, where the kernel has that.
    pub(crate) fn wake_fd(&self) -> Option<RawFd> {
        self.pidfd.as_ref().map(|fd| fd.as_raw_fd())
    }

    /// Lets the program begin.
    pub(crate) fn release(&mut self) -> Result<(), CollectError> {
        if let Some(mut go) = self.go.take() {
            // A child that is gone already shows up in its status.
            let _ = go.write_all(&[1]);
        }
        let mut errno = Vec::new();
        // Ends when `execve` closes the pipe.
        (&self.failure)
            .read_to_end(&mut errno)
            .map_err(|source| CollectError::System {
                doing: "starting a process",
                source,
            })?;
        let Ok(errno) = <[u8; 4]>::try_from(errno.as_slice()) else {
            return Ok(());
        };
        let source = io::Error::from_raw_os_error(i32::from_le_bytes(errno));
        let path = self.path.clone();
        Err(match source.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => CollectError::NotExecutable { path, source },
            Some(libc::ENOEXEC) => CollectError::BadFormat { path },
            Some(libc::ENOENT) if path.exists() => CollectError::NoInterpreter {
                path,
                interpreter: None,
            },
            _ => CollectError::Exec { path, source },
        })
    }

    /// How it ended, once it has.
    pub(crate) fn try_wait(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.wait(WaitPidFlag::WNOHANG);
        }
        self.status
    }

    /// Asks it and what it made to end: at first politely, then less so each time the grace is over. To be called again
    /// and again, until [`is_over`](Self::is_over).
    pub(crate) fn end(&mut self, now: Nanos, urgency: Urgency) {
        let due = |at| urgency == Urgency::Now || now.since(at) >= GRACE;
        let step = match self.ending {
            None => 0,
            Some((sent, at)) if due(at) && sent < SIGNALS.len() => sent,
            Some(_) => return,
        };
        self.ending = Some((step + 1, now));
        self.family.look(self.status.is_none().then_some(self.pid));
        if !(step == 0 && urgency == Urgency::Told) {
            self.family.signal(SIGNALS[step]);
            self.signal(SIGNALS[step]);
        }
    }

    /// Whether it has ended, and what it made has as well or is not to be waited for any longer.
    pub(crate) fn is_over(&mut self, now: Nanos) -> bool {
        let given_up = self
            .ending
            .is_some_and(|(sent, at)| sent == SIGNALS.len() && now.since(at) >= GRACE);
        self.status.is_some() && (self.family.is_over() || given_up)
    }

    fn signal(&self, signal: Signal) {
        // As long as it has not been waited for, its number is not given to another process.
        if self.status.is_none() {
            let _ = signal::kill(self.nix_pid(), signal);
            if family::is_stopped(self.pid) {
                let _ = signal::kill(self.nix_pid(), Signal::SIGCONT);
            }
        }
    }

    fn wait(&mut self, flags: WaitPidFlag) {
        while self.status.is_none() {
            match wait::waitpid(self.nix_pid(), Some(flags)) {
                Ok(WaitStatus::Exited(_, code)) => self.status = Some(ExitStatus::Code(code)),
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    self.status = Some(ExitStatus::Signal(signal as i32));
                }
                Err(Errno::EINTR) => {}
                // Somebody else waited for it; how it ended is not to be had any more.
                Err(_) => self.status = Some(ExitStatus::Code(-1)),
                Ok(_) => break,
            }
        }
    }

    const fn nix_pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.pid.0.cast_signed())
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Held back, it ends by itself when the pipe closes. Otherwise nobody is left to watch it.
        self.go = None;
        self.signal(Signal::SIGKILL);
        self.wait(WaitPidFlag::empty());
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), CollectError> {
    nix::unistd::pipe2(OFlag::O_CLOEXEC).map_err(|error| CollectError::System {
        doing: "making a pipe",
        source: error.into(),
    })
}

fn c_string(bytes: Vec<u8>) -> Result<CString, CollectError> {
    CString::new(bytes).map_err(|error| CollectError::System {
        doing: "passing an argument with a NUL byte",
        source: error.into(),
    })
}

/// `NAME=value` of all variables: those of `extra` replace others, and `LD_PRELOAD` is put before what was there.
fn environment(own: &[(OsString, OsString)], extra: &[(OsString, OsString)]) -> Vec<Vec<u8>> {
    let preload = OsStr::new("LD_PRELOAD");
    let before = own.iter().find(|(name, _)| name == preload);
    let kept = own
        .iter()
        .filter(|(name, _)| !extra.iter().any(|(other, _)| other == name))
        .map(|(name, value)| (name, value.clone()));
    let added = extra.iter().map(move |(name, value)| {
        let mut value = value.clone();
        if let Some((_, before)) = before.filter(|_| name == preload) {
            value.push(":");
            value.push(before);
        }
        (name, value)
    });
    kept.chain(added)
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect()
}

/// A descriptor that becomes readable when a process ends, where the kernel has that.
#[expect(unsafe_code, reason = "the kernel's call has no wrapper")]
pub(crate) fn pidfd(pid: Pid) -> Option<OwnedFd> {
    // SAFETY: takes two numbers and returns one.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid.0, 0) };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    // SAFETY: the kernel has just made this descriptor for us; it closes on exec.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

mod held {
    //! What happens in the child: only calls that are allowed between `fork` and `execve`.

    #![expect(unsafe_code, reason = "fork and execve")]

    use std::{
        ffi::{CStr, CString, c_char},
        io,
        os::fd::RawFd,
        ptr,
    };

    use hitm_model::Pid;

    /// All that the child needs, prepared before the fork.
    pub(super) struct Start<'a> {
        pub(super) path: &'a CStr,
        pub(super) arguments: &'a [*const c_char],
        pub(super) environment: &'a [*const c_char],
        pub(super) stdout_to_stderr: bool,
        pub(super) go: RawFd,
        pub(super) not_go: RawFd,
        pub(super) failure: RawFd,
    }

    /// The form that `execve` takes: pointers, and a null pointer at the end. Valid as long as `strings`.
    pub(super) fn pointers(strings: &[CString]) -> Vec<*const c_char> {
        strings
            .iter()
            .map(|string| string.as_ptr())
            .chain([ptr::null()])
            .collect()
    }

    impl Start<'_> {
        pub(super) fn fork(&self) -> io::Result<Pid> {
            // SAFETY: the child calls only what is async-signal-safe (see `child`), and never returns.
            match unsafe { libc::fork() } {
                -1 => Err(io::Error::last_os_error()),
                0 => self.child(),
                pid => Ok(Pid(pid.cast_unsigned())),
            }
        }

        fn child(&self) -> ! {
            // SAFETY: closes a descriptor of this process; the parent's copy stays open.
            unsafe { libc::close(self.not_go) };
            if self.stdout_to_stderr {
                // SAFETY: takes two numbers.
                unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
            }
            self.default_signals();
            let mut byte = 0u8;
            // SAFETY: `byte` has the one byte that is read.
            let n = unsafe { libc::read(self.go, (&raw mut byte).cast(), 1) };
            if n == 1 {
                // SAFETY: the lists end in null and point to strings that the parent's stack frame keeps alive; this
                // process has a copy of them.
                unsafe {
                    libc::execve(
                        self.path.as_ptr(),
                        self.arguments.as_ptr(),
                        self.environment.as_ptr(),
                    )
                };
                let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
                let errno = errno.to_le_bytes();
                // SAFETY: `errno` has as many bytes as are written.
                unsafe { libc::write(self.failure, errno.as_ptr().cast(), errno.len()) };
            }
            // SAFETY: ends this process without running anything of the parent's.
            unsafe { libc::_exit(127) }
        }

        /// Rust programs ignore SIGPIPE, and a signal mask is inherited; the program must not notice either.
        fn default_signals(&self) {
            // SAFETY: setting a default action is allowed anywhere.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            // SAFETY: an all-zero set is an initialised, empty one on Linux.
            let none: libc::sigset_t = unsafe { std::mem::zeroed() };
            // SAFETY: `none` is initialised; the old mask is not asked for.
            unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) };
        }
    }
}
