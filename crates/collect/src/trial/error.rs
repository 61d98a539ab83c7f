//! Why a run gave nothing.

use std::io;

use hitm_model::{Nanos, shell_word};

use super::Output;

/// Why a run gave nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The command could not be started.
    #[error("cannot start {command}")]
    Start {
        /// Its first word.
        command: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It did not end in time, and was ended.
    #[error("did not end within {timeout}")]
    TimeOut {
        /// The time that it had.
        timeout: Nanos,
        /// What it wrote to its standard error.
        stderr: Output,
    },
    /// The user interrupted.
    #[error("interrupted")]
    Interrupted,
    /// A service ended before it was asked to.
    #[error("ended by itself: {status}")]
    ServiceEnded {
        /// How.
        status: String,
        /// What it wrote to its standard error.
        stderr: Output,
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

impl TrialError {
    /// The next thing to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match self {
            Self::Start { command, .. } => format!(
                "type -a -- {} (commands are started without a shell; for a pipeline: sh -c '…')",
                shell_word(command)
            ),
            Self::TimeOut { .. } => {
                "try the command by hand, or give it more time: --timeout SECONDS".into()
            }
            Self::Interrupted => "the same command again".into(),
            Self::ServiceEnded { .. } => {
                "try the server's command by hand (is its port taken?)".into()
            }
            Self::System { .. } => "hitm doctor".into(),
        }
    }
}
