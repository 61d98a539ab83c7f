//! How busy the busiest thread of a command is, and that of its server: who of the two is at the limit?
//!
//! A thread cannot use more than one processor. If the client's busiest thread runs all the time and the server's does not,
//! the client is what was measured. The kernel counts each thread's time on a processor in ns
//! (Documentation/scheduler/sched-stats.rst, `/proc/PID/task/TID/schedstat`, first number).

use std::fs;

use hitm_model::{Nanos, Pid};
use rustc_hash::FxHashMap;

use super::orphans;

/// The first look comes after so long; each later one when half as much time more has passed, so that looking costs next to
/// nothing.
const FIRST_LOOK: Nanos = Nanos::from_millis(300);

/// The part of the time that the busiest thread of each side ran, from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Busiest {
    /// Of the command's threads.
    pub client: f64,
    /// Of its server's.
    pub server: f64,
}

/// Looks at the threads of a command and its server now and then. Each is a process group.
#[derive(Debug)]
pub(super) struct Watch {
    client: Pid,
    server: Pid,
    before: FxHashMap<u32, Nanos>,
    began: Nanos,
    next: Nanos,
    last: Option<Busiest>,
}

impl Watch {
    pub(super) fn begin(client: Pid, server: Pid, now: Nanos) -> Self {
        Self {
            client,
            server,
            before: times(server),
            began: now,
            next: FIRST_LOOK,
            last: None,
        }
    }

    /// Looks, if it is time to.
    pub(super) fn look(&mut self, now: Nanos) {
        let elapsed = now.since(self.began);
        if elapsed < self.next {
            return;
        }
        self.next = Nanos(elapsed.0 + elapsed.0 / 2);
        let none = FxHashMap::default();
        let part = |used: Option<Nanos>| Some(used?.as_secs_f64() / elapsed.as_secs_f64());
        let client = part(most(&times(self.client), &none));
        let server = part(most(&times(self.server), &self.before));
        if let (Some(client), Some(server)) = (client, server) {
            self.last = Some(Busiest { client, server });
        }
    }

    /// What the last look saw; `None` of a run that was too short, or where the kernel does not tell.
    pub(super) fn seen(&self) -> Option<Busiest> {
        self.last
    }
}

/// The most that one thread used since.
fn most(now: &FxHashMap<u32, Nanos>, before: &FxHashMap<u32, Nanos>) -> Option<Nanos> {
    now.iter()
        .map(|(tid, used)| used.since(before.get(tid).copied().unwrap_or(Nanos(0))))
        .max()
}

/// Time on a processor of every thread of a process group.
fn times(group: Pid) -> FxHashMap<u32, Nanos> {
    let mut times = FxHashMap::default();
    for pid in orphans::in_group(group) {
        let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
            continue;
        };
        for tid in tasks.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()) {
            let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat"));
            let used = text
                .ok()
                .and_then(|text| text.split(' ').next()?.parse().ok());
            if let Some(used) = used {
                times.insert(tid, Nanos(used));
            }
        }
    }
    times
}
