//! Why a recording could not be made, each with the next command to type.

use std::{
    io,
    path::{Path, PathBuf},
};

use hitm_model::Pid;

/// Why a recording could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// The kernel's setting keeps `perf_event_open` from this user.
    #[error("perf_event_open is refused: kernel.perf_event_paranoid is {paranoid}")]
    PerfParanoid {
        /// The value of `kernel.perf_event_paranoid`.
        paranoid: i32,
    },
    /// A filter around this process (a container's seccomp profile, a security module) refuses `perf_event_open`.
    #[error(
        "perf_event_open is refused by a filter around this process (a container's seccomp profile?)"
    )]
    PerfFiltered {
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel has no `perf_event_open`.
    #[error("this kernel has no perf_event_open")]
    PerfMissing,
    /// `perf_event_open` or one of its calls failed for another reason.
    #[error("perf_event_open failed while {doing}")]
    Perf {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The preloaded agent cannot be used.
    #[error("the preloaded agent cannot be used: {why}")]
    Agent {
        /// Why.
        why: String,
    },
    /// There is no such process.
    #[error("no process has the number {pid}")]
    NoSuchProcess {
        /// The number asked for.
        pid: Pid,
    },
    /// The process belongs to another user, or must not be inspected.
    #[error("process {pid} may not be inspected by this user")]
    NotPermitted {
        /// The process.
        pid: Pid,
    },
    /// Following every thread on every processor needs more open files than allowed.
    #[error(
        "following every thread of process {pid} takes {needed} open files, {limit} are allowed"
    )]
    TooFewDescriptors {
        /// The process.
        pid: Pid,
        /// How many are needed.
        needed: u64,
        /// The hard limit.
        limit: u64,
    },
    /// The command was not found.
    #[error("command not found: {command}")]
    CommandNotFound {
        /// What was typed.
        command: String,
    },
    /// The command is a file that may not be executed.
    #[error("{path} cannot be executed")]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The command is neither a binary nor a script.
    #[error("{path} is neither an ELF binary nor a script with a #! line")]
    BadFormat {
        /// The file.
        path: PathBuf,
    },
    /// The program is not a native 64-bit one.
    #[error("{path} is {what}; only 64-bit x86 programs can be decoded")]
    WrongArchitecture {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// What the program is to be started by is missing.
    #[error("{path} cannot be started: {} is missing", interpreter.as_ref().map_or_else(
        || "its dynamic linker".to_owned(),
        |interpreter| format!("its interpreter {}", interpreter.display()),
    ))]
    NoInterpreter {
        /// The file.
        path: PathBuf,
        /// The interpreter that its first line names, if it is a script.
        interpreter: Option<PathBuf>,
    },
    /// The program runs as another user than the one who starts it.
    #[error(
        "{path} changes the user when it starts (setuid), and such a program cannot be sampled"
    )]
    SetUser {
        /// The file.
        path: PathBuf,
    },
    /// The number is that of a thread of the kernel.
    #[error("{pid} is a thread of the kernel")]
    KernelThread {
        /// The number asked for.
        pid: Pid,
    },
    /// The process has ended, but its parent has not noticed yet.
    #[error("process {pid} has ended already; its parent has not noticed yet")]
    Zombie {
        /// The process.
        pid: Pid,
    },
    /// The program could not be started for another reason.
    #[error("{path} could not be started")]
    Exec {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A system call failed that does not usually fail.
    #[error("{doing} failed")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl CollectError {
    /// The next thing to do about it: a command to type where there is one.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::PerfParanoid { .. } => {
                "sudo sysctl kernel.perf_event_paranoid=2 (or: hitm run --sampler preload -- COMMAND)"
                    .into()
            }
            Self::PerfFiltered { .. } => {
                "hitm run --sampler preload -- COMMAND (or start the container with --cap-add PERFMON \
                 --security-opt seccomp=unconfined)"
                    .into()
            }
            Self::PerfMissing => "hitm run --sampler preload -- COMMAND".into(),
            Self::Perf { .. } => "hitm doctor".into(),
            Self::Agent { .. } => "hitm run --sampler perf -- COMMAND (hitm doctor tells what is refused)".into(),
            Self::NoSuchProcess { .. } | Self::KernelThread { .. } | Self::Zombie { .. } => {
                "pgrep -a NAME".into()
            }
            Self::NotPermitted { .. } if nix::unistd::geteuid().is_root() => {
                "hitm run -- COMMAND (or leave the container, or allow ptrace in it)".into()
            }
            Self::NotPermitted { pid } => {
                format!("the same command with sudo in front, or as its owner (ps -o user= -p {pid})")
            }
            Self::TooFewDescriptors { pid, needed, .. } => {
                let wanted = needed.next_multiple_of(1024);
                format!("sudo prlimit --pid $$ --nofile={wanted}:{wanted} (and the same command again, for process {pid})")
            }
            Self::CommandNotFound { command } if command.is_empty() => {
                "hitm run -- COMMAND ARGUMENTS".into()
            }
            Self::CommandNotFound { command } if command.contains('/') => {
                format!("ls -l {}", quoted(command.as_ref()))
            }
            Self::CommandNotFound { command } => format!("type -a -- {}", quoted(command.as_ref())),
            Self::NotExecutable { path, .. } if path.is_dir() => {
                format!("ls {} (and name a program in it)", quoted(path))
            }
            Self::NotExecutable { path, .. } => format!("chmod +x {}", quoted(path)),
            Self::BadFormat { path } => {
                format!("file {0} (a script: hitm run -- sh {0})", quoted(path))
            }
            Self::WrongArchitecture { path, .. } => format!("file {}", quoted(path)),
            Self::NoInterpreter {
                path,
                interpreter: Some(_),
            } => format!("head -n 1 {} (and install what it names)", quoted(path)),
            Self::NoInterpreter { path, .. } => format!("readelf -l {} | grep interpreter", quoted(path)),
            Self::SetUser { path } => format!(
                "sudo hitm run -- COMMAND (a command behind sudo: sudo hitm run -- COMMAND, not hitm run -- {} COMMAND)",
                quoted(path)
            ),
            Self::Exec { path, .. } => format!("ls -l {}", quoted(path)),
            Self::System { .. } => "hitm doctor".into(),
        }
    }

    /// Whether the machine refused, rather than the request being wrong or hitm failing.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::PerfParanoid { .. }
                | Self::PerfFiltered { .. }
                | Self::PerfMissing
                | Self::Perf { .. }
                | Self::Agent { .. }
                | Self::NotPermitted { .. }
                | Self::SetUser { .. }
                | Self::TooFewDescriptors { .. }
        )
    }
}

/// A path as a shell takes it; one that begins with `-` is no option.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,@%=".contains(c);
    let text = if text.starts_with('-') {
        format!("./{text}")
    } else {
        text.into_owned()
    };
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
