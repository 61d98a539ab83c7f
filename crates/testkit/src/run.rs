//! Runs a program with a time limit and leaves nothing of it behind.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

/// How a program ended and what it printed.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// Whether it had to be killed because its time was over.
    pub timed_out: bool,
    /// How long it took.
    pub elapsed: Duration,
}

/// Kills what is left of a process group when it goes out of scope, also when a test panics.
struct Group {
    child: Child,
    pid: Pid,
}

impl Drop for Group {
    fn drop(&mut self) {
        // The leader is still unreaped here, so its number cannot belong to anybody else.
        let _ = killpg(self.pid, Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// Runs `command` to its end or for `limit`, then kills its whole process group.
///
/// Output is captured and taken as UTF-8, damaged sequences replaced. Standard input is empty.
///
/// # Errors
/// If the program cannot be started or waited for.
pub fn run_limited(command: &mut Command, limit: Duration) -> io::Result<Outcome> {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    let mut group = Group { child, pid };

    let mut timed_out = false;
    while !has_ended(pid)? {
        if began.elapsed() > limit {
            timed_out = true;
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    let elapsed = began.elapsed();
    // Also ends grandchildren that hold our pipes open.
    let _ = killpg(pid, Signal::SIGKILL);
    let status = group.child.wait()?;
    std::mem::forget(group);
    Ok(Outcome {
        status,
        stdout: text(stdout),
        stderr: text(stderr),
        timed_out,
        elapsed,
    })
}

/// Whether the process has ended; it stays unreaped.
fn has_ended(pid: Pid) -> io::Result<bool> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    match waitid(Id::Pid(pid), flags) {
        Ok(WaitStatus::StillAlive) | Err(Errno::EINTR) => Ok(false),
        Ok(_) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn reader<R: Read + Send + 'static>(from: Option<R>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // What came before an error is still the output.
            let _ = from.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn text(reader: thread::JoinHandle<Vec<u8>>) -> String {
    String::from_utf8_lossy(&reader.join().unwrap_or_default()).into_owned()
}
