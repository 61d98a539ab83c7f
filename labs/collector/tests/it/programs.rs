//! The twins as programs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hitm_testkit::{CompileError, Language, Outcome, compile_program, run_limited};

const TIME_LIMIT: Duration = Duration::from_secs(90);

/// The one in Rust.
pub(crate) fn rust() -> PathBuf {
    env!("CARGO_BIN_EXE_collect").into()
}

/// The one in C.
///
/// # Errors
/// Why it is not there, where that is no failure.
pub(crate) fn c() -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("collect.c");
    match compile_program(Language::C, &source, &[]) {
        Ok(built) => Ok(built.program),
        Err(CompileError::NoCompiler(compiler)) => Err(format!("no {compiler}")),
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn run(program: &Path, arguments: &str) -> Outcome {
    let mut command = Command::new(program);
    let outcome = run_limited(command.args(arguments.split_whitespace()), TIME_LIMIT).unwrap();
    assert!(!outcome.timed_out, "{program:?} {arguments} did not end");
    outcome
}
