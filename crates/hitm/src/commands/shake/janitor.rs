//! A process of our own that tidies up if hitm is killed: it ends what the experiment started and removes its directory.
//!
//! It waits at a pipe whose other end only hitm has. A word on it means that there is nothing to do; its end without a word
//! means that hitm is gone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::place::{MARK, remove};
use crate::cli::ShakeJanitorArgs;

/// The word that ends the janitor.
const DONE: &[u8] = b"done";
/// Processes may start others while they are ended.
const MOST_SWEEPS: usize = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// The process, seen from hitm.
#[derive(Debug)]
pub(super) struct Janitor(Child);

impl Janitor {
    pub(super) fn start(place: &Path, keep: bool) -> anyhow::Result<Self> {
        let janitor = Command::new("/proc/self/exe")
            .arg("shake-janitor")
            .arg(place)
            .args(keep.then_some("--keep"))
            .env_remove(MARK)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C is for the terminal's group.
            .process_group(0)
            .spawn()
            .context("cannot start the process that tidies up if hitm is killed")?;
        Ok(Self(janitor))
    }

    pub(super) fn is_not_needed(&mut self) {
        if let Some(pipe) = &mut self.0.stdin {
            // If it is gone, there is nobody to tell.
            let _ = pipe.write_all(DONE);
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.0.stdin = None;
        let _ = self.0.wait();
    }
}

/// What the process does.
pub(crate) fn tidy_up(args: &ShakeJanitorArgs) -> anyhow::Result<()> {
    let mut word = Vec::new();
    std::io::stdin().read_to_end(&mut word)?;
    if word == DONE {
        return Ok(());
    }
    let mut mark = MARK.as_bytes().to_vec();
    mark.push(b'=');
    mark.extend(args.place.as_os_str().as_bytes());
    for _ in 0..MOST_SWEEPS {
        let marked = processes_with(&mark);
        if marked.is_empty() {
            break;
        }
        for pid in marked {
            // One that has ended meanwhile needs no signal.
            let _ = kill(pid, Signal::SIGKILL);
        }
        std::thread::sleep(PAUSE);
    }
    if args.keep {
        return Ok(());
    }
    remove(&args.place).with_context(|| format!("cannot remove {}", args.place.display()))
}

/// Running processes with this in their environment.
fn processes_with(mark: &[u8]) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_marked = |pid: &i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark)
    };
    pids.filter(is_marked).map(Pid::from_raw).collect()
}
