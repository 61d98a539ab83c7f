//! Why a recording could not be made, each with the next command to type.

use std::{io, path::PathBuf};

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
            Self::Agent { .. } => "hitm run --sampler perf -- COMMAND".into(),
            Self::NoSuchProcess { .. } => "pgrep -a NAME".into(),
            Self::NotPermitted { pid } => format!("sudo hitm attach {pid}"),
            Self::TooFewDescriptors { pid, needed, .. } => {
                let wanted = needed.next_multiple_of(1024);
                format!("sudo prlimit --pid $$ --nofile={wanted}:{wanted} && hitm attach {pid}")
            }
            Self::CommandNotFound { command } => format!("type -a {command}"),
            Self::NotExecutable { path, .. } => format!("chmod +x {}", path.display()),
            Self::BadFormat { path } => {
                format!("file {0} (a script: hitm run -- sh {0})", path.display())
            }
            Self::WrongArchitecture { path, .. } => format!("file {}", path.display()),
            Self::Exec { path, .. } => format!("ls -l {}", path.display()),
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
                | Self::TooFewDescriptors { .. }
        )
    }
}
