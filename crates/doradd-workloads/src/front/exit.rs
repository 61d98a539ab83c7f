//! How a command ends: exit codes, and errors as a person reads them.

use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::memory::TooLittle;
use crate::rpc::ServeError;
use crate::rpc::client::ClientError;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// 0: done.
    Done,
    /// 1: the state is not that of the serial oracle, or a server's replies are not what they must be.
    Differs,
    /// 2: wrong usage, bad input, or an error of ours.
    Error,
    /// 3: the machine refused: memory, threads, processors, sockets.
    Refused,
}

impl Exit {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Differs => 1,
            Self::Error => 2,
            Self::Refused => 3,
        }
    }
}

/// Ends a command: prints its error, if it has one, and gives the code. That nobody reads our output is no error.
#[must_use]
pub fn end(program: &str, result: anyhow::Result<Exit>) -> ExitCode {
    let exit = match result {
        Ok(exit) => exit,
        Err(error) if is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            // That nobody can read it is no reason to fail otherwise.
            let _ = writeln!(io::stderr().lock(), "{program}: {error:#}");
            if is_refusal(&error) {
                Exit::Refused
            } else {
                Exit::Error
            }
        }
    };
    exit.number().into()
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let error = cause.downcast_ref::<io::Error>();
        error.is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
    })
}

fn is_refusal(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        use doradd::{BuildError, ReplayError};
        let built = cause.downcast_ref::<BuildError>();
        let refused = |it| matches!(it, &(BuildError::Thread(_) | BuildError::Pin { .. }));
        let served = cause.downcast_ref::<ServeError>();
        cause.is::<TooLittle>()
            || cause.is::<ClientError>()
            || served.is_some_and(ServeError::is_refusal)
            || built.is_some_and(refused)
            || matches!(cause.downcast_ref(), Some(ReplayError::Thread(_)))
    })
}
