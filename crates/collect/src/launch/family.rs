//! The processes that a program has made, for when it is ended before its time.
//!
//! They are those that descend from it by `/proc`'s word. One that gave itself to the system (a daemon: its parent has
//! ended) is none of them any more. Each is held by a descriptor, so that no signal goes to another process that was
//! given the same number.

use std::{
    fs,
    os::fd::{AsRawFd as _, OwnedFd},
};

use hitm_model::Pid;
use nix::sys::signal::Signal;
use rustc_hash::FxHashMap;

use super::pidfd;

/// Descendants of a program that are to end with it.
#[derive(Debug, Default)]
pub(super) struct Family {
    members: FxHashMap<Pid, OwnedFd>,
}

impl Family {
    /// Looks for descendants of `root`, if it is there still, and of those that are known already.
    pub(super) fn look(&mut self, root: Option<Pid>) {
        let parents = parents();
        let mut from: Vec<Pid> = self.members.keys().copied().chain(root).collect();
        while let Some(parent) = from.pop() {
            for (&pid, _) in parents.iter().filter(|&(_, &of)| of == parent) {
                if self.members.contains_key(&pid) {
                    continue;
                }
                // Its number may have been given away since the list was made: asked again while it is held.
                if let Some(fd) = pidfd(pid)
                    && parent_of(pid) == Some(parent)
                {
                    self.members.insert(pid, fd);
                    from.push(pid);
                }
            }
        }
    }

    /// Whether all have ended.
    pub(super) fn is_over(&mut self) -> bool {
        self.members
            .retain(|&pid, fd| send(fd, None) && !has_ended(pid));
        self.members.is_empty()
    }

    /// Sends a signal to all.
    pub(super) fn signal(&self, signal: Signal) {
        for (&pid, fd) in &self.members {
            // One that is gone needs none.
            let _ = send(fd, Some(signal));
            if is_stopped(pid) {
                let _ = send(fd, Some(Signal::SIGCONT));
            }
        }
    }
}

/// Sends a signal, or only asks whether there is a process; whether there was one.
#[expect(unsafe_code, reason = "the kernel's call has no wrapper")]
fn send(fd: &OwnedFd, signal: Option<Signal>) -> bool {
    let signal = signal.map_or(0, |signal| signal as i32);
    let none = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a descriptor that is open, two numbers, and no further information.
    let sent =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd.as_raw_fd(), signal, none, 0) };
    sent == 0
}

/// Whether a process is there only until its parent asks how it ended.
fn has_ended(pid: Pid) -> bool {
    stat(pid).is_none_or(|stat| stat.starts_with(['Z', 'X']))
}

/// Whether a process was stopped by a signal: it sees no other one until it goes on.
pub(super) fn is_stopped(pid: Pid) -> bool {
    stat(pid).is_some_and(|stat| stat.starts_with('T'))
}

/// The parent of every process.
fn parents() -> FxHashMap<Pid, Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return FxHashMap::default();
    };
    entries
        .filter_map(|entry| {
            let pid = Pid(entry.ok()?.file_name().to_str()?.parse().ok()?);
            Some((pid, parent_of(pid)?))
        })
        .collect()
}

fn parent_of(pid: Pid) -> Option<Pid> {
    stat(pid)?.split(' ').nth(1)?.parse().ok().map(Pid)
}

/// What `/proc/PID/stat` says behind the name, which may contain anything: the state, the parent, …
fn stat(pid: Pid) -> Option<String> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.rsplit_once(") ").map(|(_, rest)| rest.to_owned())
}
