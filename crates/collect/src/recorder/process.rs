//! Looking at a process that somebody else started.

use std::{fs, io, os::fd::OwnedFd};

use hitm_model::Pid;

use crate::{CollectError, launch};

/// Whether a process is there and can be decoded.
pub(super) fn check(pid: Pid) -> Result<(), CollectError> {
    let program = format!("/proc/{pid}/exe");
    match fs::read_link(&program) {
        Ok(path) => launch::check_program(program.as_ref()).map_err(|error| match error {
            CollectError::WrongArchitecture { what, .. } => {
                CollectError::WrongArchitecture { path, what }
            }
            error => error,
        }),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(CollectError::NotPermitted { pid })
        }
        Err(_) => Err(match state(pid) {
            Some('Z' | 'X') => CollectError::Zombie { pid },
            // It has a directory, but no program.
            Some(_) => CollectError::KernelThread { pid },
            None => CollectError::NoSuchProcess { pid },
        }),
    }
}

/// A letter for what a process does: `/proc/PID/stat` behind the name, which may contain anything.
fn state(pid: Pid) -> Option<char> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    stat.rsplit_once(") ")?.1.chars().next()
}

/// The command and arguments it was started with, or what it calls itself now.
pub(super) fn command(pid: Pid) -> Vec<String> {
    words(&fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default())
}

/// The words of a `/proc/PID/cmdline`. A program that writes a title over its arguments leaves the rest of them empty.
fn words(text: &[u8]) -> Vec<String> {
    let end = text
        .iter()
        .rposition(|&byte| byte != 0)
        .map_or(0, |last| last + 1);
    text[..end]
        .split(|&byte| byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}

/// A descriptor that becomes readable when it ends, where the kernel has that.
pub(super) fn watch(pid: Pid) -> Option<OwnedFd> {
    launch::pidfd(pid)
}

/// Whether it has ended, whether or not somebody has waited for it.
pub(super) fn is_gone(pid: Pid) -> bool {
    let Some(state) = state(pid) else {
        return true;
    };
    // A process whose main thread has ended is a zombie, too, as long as others run.
    let n_threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    matches!(state, 'Z' | 'X') && n_threads() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_over_the_arguments_is_one_word() {
        assert_eq!(words(b"sleep\x001\x00"), ["sleep", "1"]);
        assert_eq!(words(b"prog\x00\x00x\x00"), ["prog", "", "x"]);
        assert_eq!(
            words(b"redis-server 127.0.0.1:6379\x00\x00\x00\x00"),
            ["redis-server 127.0.0.1:6379"]
        );
        assert_eq!(words(b""), [""]);
    }
}
