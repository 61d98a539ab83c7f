//! Events for a process that already runs: every thread of it, on every processor.
//!
//! Threads made by a thread that has its events inherit them. Those made while the events were being opened may have
//! been missed, so `/proc/PID/task` is read again until it names nobody new; such a late thread may have inherited
//! events as well as the ones opened for it, and then only the latter count.

use std::{collections::BTreeSet, fs, io, os::fd::AsFd};

use hitm_model::{Nanos, Pid, Tid};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rustc_hash::FxHashSet;

use super::{PerfSampler, Place, WAKE_AT, attr, attr::Start, online_cpus, sys, sys::Target};
use crate::CollectError;

/// Descriptors that the rest of this program may need.
const SPARE: u64 = 64;

/// How often the threads are listed before a process that makes threads faster than we can follow is given up on.
const ROUNDS: usize = 50;

impl PerfSampler {
    /// A sampler of the process `pid`, already sampling.
    pub(crate) fn attach(period: Nanos, pid: Pid) -> Result<Self, CollectError> {
        let mut sampler = Self::new(period);
        let mut seen = BTreeSet::new();
        for round in 0..ROUNDS {
            let threads = threads_of(pid)?;
            make_room(pid, seen.union(&threads).count())?;
            let new: Vec<Tid> = threads.difference(&seen).copied().collect();
            if new.is_empty() && round > 0 {
                break;
            }
            for tid in new {
                seen.insert(tid);
                sampler.follow(pid, tid, round > 0)?;
            }
        }
        if sampler.streams.is_empty() {
            return Err(CollectError::NoSuchProcess { pid });
        }
        Ok(sampler)
    }

    /// Opens the events of one thread. One that has ended meanwhile is skipped.
    fn follow(&mut self, pid: Pid, tid: Tid, late: bool) -> Result<(), CollectError> {
        let number = tid.0.cast_signed();
        if self.streams.is_empty() {
            return match self.open_rings(number, Start::Now, Some(pid)) {
                Err(CollectError::NoSuchProcess { .. }) => {
                    self.streams.clear();
                    Ok(())
                }
                result => result,
            };
        }
        let mut own = FxHashSet::default();
        let side = attr::side(Start::Now, WAKE_AT);
        let sampling = attr::sampling(self.period, Start::Now, WAKE_AT);
        for stream in &self.streams {
            let (attr, cpu) = match stream.place {
                Place::Side(cpu) => (side, cpu),
                Place::Sampling(cpu) => (sampling, cpu),
            };
            let event = match sys::open(&attr, Target::OnCpu { tid: number, cpu }) {
                Ok(event) => event,
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Ok(()),
                Err(error) => return Err(sys::refusal(error, Some(pid))),
            };
            let failed = |doing| move |source| CollectError::Perf { doing, source };
            sys::redirect(event.as_fd(), stream.event().as_fd())
                .map_err(failed("sharing a processor's ring"))?;
            if late {
                own.insert(sys::id(event.as_fd()).map_err(failed("asking for an event's number"))?);
            }
            self.redirected.push(event);
        }
        if late {
            self.own_events.insert(tid, own);
        }
        Ok(())
    }
}

fn threads_of(pid: Pid) -> Result<BTreeSet<Tid>, CollectError> {
    let entries =
        fs::read_dir(format!("/proc/{pid}/task")).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => CollectError::NoSuchProcess { pid },
            io::ErrorKind::PermissionDenied => CollectError::NotPermitted { pid },
            _ => CollectError::System {
                doing: "listing the threads",
                source,
            },
        })?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Tid))
        .collect())
}

/// Raises the limit of open files to what `n_threads` threads take.
fn make_room(pid: Pid, n_threads: usize) -> Result<(), CollectError> {
    let needed = n_threads as u64 * online_cpus().len() as u64 * 2 + SPARE;
    let failed = |doing| {
        move |error: nix::Error| CollectError::System {
            doing,
            source: error.into(),
        }
    };
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(failed("reading a limit"))?;
    if needed <= soft {
        return Ok(());
    }
    // The hard limit can be raised by the superuser only.
    setrlimit(Resource::RLIMIT_NOFILE, needed.max(hard), needed.max(hard)).map_err(|_| {
        CollectError::TooFewDescriptors {
            pid,
            needed,
            limit: hard,
        }
    })
}
