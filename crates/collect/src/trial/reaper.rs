//! Who ends what runs if we are killed ourselves.
//!
//! A process that is killed with SIGKILL can clean up nothing. The kernel kills the commands that it started
//! (`PR_SET_PDEATHSIG`), but not what those started. So another process is told the number of each command's group when it is
//! started, and again before the number is given back; when the pipe to it closes, it kills the groups that are left. It
//! must be told before the command is waited for: after that the number may be somebody else's.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock};

use hitm_model::Pid;
use nix::sys::signal::{Signal, killpg};

use super::TrialError;

/// The pipe to the process that was started, once for this one.
static PIPE: OnceLock<Mutex<ChildStdin>> = OnceLock::new();

/// From now on, commands that are left when this process is killed are ended with all of their process group. `command`
/// starts a process that calls [`reap`]. Does nothing the second time.
///
/// # Errors
/// If it cannot be started.
pub fn end_if_killed(command: &[OsString]) -> Result<(), TrialError> {
    if PIPE.get().is_some() {
        return Ok(());
    }
    let failed = |source| TrialError::System {
        doing: "starting a process that ends commands if this one is killed",
        source,
    };
    let Some((program, arguments)) = command.split_first() else {
        return Err(failed(io::ErrorKind::NotFound.into()));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C is for us, and we end it by ending.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let pipe = child
        .stdin
        .take()
        .ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
    // It ends after us, so nobody waits for it.
    drop(child);
    let _ = PIPE.set(Mutex::new(pipe));
    Ok(())
}

/// A group runs from now on.
pub(super) fn begun(group: Pid) {
    tell('+', group);
}

/// A group has ended, and its number is still ours.
pub(super) fn over(group: Pid) {
    tell('-', group);
}

fn tell(sign: char, group: Pid) {
    let Some(pipe) = PIPE.get() else {
        return;
    };
    // Without it a kill leaves something behind, which is no reason to measure nothing.
    if let Ok(mut pipe) = pipe.lock() {
        let _ = pipe.write_all(format!("{sign}{group}\n").as_bytes());
    }
}

/// What the other process does: reads groups from its standard input, and kills those that are left at its end.
///
/// # Errors
/// If it cannot be read.
pub fn reap() -> io::Result<()> {
    let mut groups = BTreeSet::new();
    for line in io::stdin().lock().lines() {
        note(&line?, &mut groups);
    }
    for group in groups {
        let _ = killpg(nix::unistd::Pid::from_raw(group), Signal::SIGKILL);
    }
    Ok(())
}

/// `+GROUP` or `-GROUP`; 1 and below are no groups of ours, but all processes.
fn note(line: &str, groups: &mut BTreeSet<i32>) {
    let parsed = line.split_at_checked(1);
    let Some((sign, Ok(group))) = parsed.map(|(sign, rest)| (sign, rest.parse::<i32>())) else {
        return;
    };
    match sign {
        "+" if group > 1 => {
            groups.insert(group);
        }
        "-" => {
            groups.remove(&group);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_and_go_and_nothing_else_is_one() {
        let mut groups = BTreeSet::new();
        for line in [
            "+7", "+8", "-7", "+1", "+0", "+-1", "", "+", "x9", "ä", "-99",
        ] {
            note(line, &mut groups);
        }
        assert_eq!(groups, BTreeSet::from([8]));
    }
}
