//! What a command leaves behind: the rest of its process group, and processes whose parent has ended without waiting
//! for them.
//!
//! The kernel gives the latter to the nearest ancestor that asked for it (prctl(2), `PR_SET_CHILD_SUBREAPER`), so that a
//! command that starts a daemon cannot leave it behind.

use std::fs;

use hitm_model::Pid;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

use super::TrialError;

/// From now on this process is given the processes that its descendants leave behind.
///
/// # Errors
/// If the kernel does not know this.
pub fn adopt_orphans() -> Result<(), TrialError> {
    set_child_subreaper(true).map_err(|error| TrialError::System {
        doing: "asking for orphans",
        source: error.into(),
    })
}

/// Processes of a group that run still, its leader not counted.
pub(super) fn alive_in_group(group: nix::unistd::Pid) -> usize {
    let group = group.as_raw().cast_unsigned();
    let is_member = |stat: &Stat| stat.group == group && !stat.has_ended && stat.pid.0 != group;
    all().iter().filter(|stat| is_member(stat)).count()
}

/// Processes of a group, its leader too.
pub(super) fn in_group(group: Pid) -> Vec<Pid> {
    let of_group = all().into_iter().filter(|stat| stat.group == group.0);
    of_group.map(|stat| stat.pid).collect()
}

/// Our children, those too that we were given.
pub(super) fn children() -> Vec<Pid> {
    let us = std::process::id();
    all()
        .iter()
        .filter(|stat| stat.parent.0 == us)
        .map(|stat| stat.pid)
        .collect()
}

/// Kills children that we did not have before, and what they started, until no new one comes; how many.
///
/// What a killed one started comes to us in its turn.
pub(super) fn end_new_children(before: &[Pid], except: nix::unistd::Pid) -> usize {
    let mut ended = 0;
    loop {
        let new: Vec<nix::unistd::Pid> = children()
            .into_iter()
            .filter(|pid| !before.contains(pid))
            .map(|pid| nix::unistd::Pid::from_raw(pid.0.cast_signed()))
            .filter(|pid| *pid != except)
            .collect();
        if new.is_empty() {
            return ended;
        }
        for pid in new {
            // They are our children, so their numbers stay theirs until we wait for them.
            let running = waitpid(pid, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive);
            if running {
                ended += 1;
                let _ = kill(pid, Signal::SIGKILL);
                let _ = waitpid(pid, None);
            }
        }
    }
}

/// Waits for those of a process group that have ended already.
pub(super) fn reap_group(group: nix::unistd::Pid) {
    let of_group = nix::unistd::Pid::from_raw(-group.as_raw());
    while let Ok(status) = waitpid(of_group, Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            return;
        }
    }
}

/// What `/proc/PID/stat` says of a process.
struct Stat {
    pid: Pid,
    parent: Pid,
    group: u32,
    has_ended: bool,
}

fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| stat(Pid(pid))).collect()
}

fn stat(pid: Pid) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // Behind the name, which may contain anything: the state, the parent, the group.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?;
    Some(Stat {
        pid,
        parent: Pid(words.next()?.parse().ok()?),
        group: words.next()?.parse().ok()?,
        has_ended: state == "Z" || state == "X",
    })
}
