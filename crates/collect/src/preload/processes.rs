//! What is known of each process, and the records of agents as events.
//!
//! A newborn tells of itself, and does not know which thread made it.

use std::{
    collections::VecDeque,
    fs,
    time::{Duration, Instant},
};

use hitm_model::{Avma, Mapping, Nanos, Pid, Registers, Tid};
use rustc_hash::FxHashMap;

use super::{
    layout::{Payload, TEXT_BYTES, kind},
    maps,
};
use crate::{RawEvent, RawSample};

/// A thread's name is looked up again after this long.
const NAME_AGE: Nanos = Nanos::from_millis(1_000);

/// Mappings are looked up at most this often…
const SHORTEST_BETWEEN_SCANS: Duration = Duration::from_millis(50);

/// …and take at most this share of the recorder's time.
const SCAN_SHARE: u32 = 50;

/// Every process that an agent was heard of in.
#[derive(Debug, Default)]
pub(super) struct Processes {
    known: FxHashMap<Pid, Process>,
    /// The program that the recorder started: its birth is no news.
    child: Option<Pid>,
    /// The time of the latest event handed over.
    latest: Nanos,
    /// Processes that executed a program without the agent.
    n_escapes: u32,
}

#[derive(Debug, Default)]
struct Process {
    threads: FxHashMap<Tid, Thread>,
    mappings: Vec<Mapping>,
    /// Text of `/proc/PID/maps` that is coming in.
    text: Vec<u8>,
    /// Whole texts that were not needed yet, and when they were whole.
    dumps: VecDeque<(Nanos, Vec<Mapping>)>,
    next_scan: Option<Instant>,
    /// How often in a row it was found without the agent.
    without_agent: u8,
}

#[derive(Debug, Default)]
struct Thread {
    name: String,
    name_read: Option<Nanos>,
}

/// Where events go.
pub(super) type Sink<'a> = &'a mut dyn FnMut(RawEvent);

impl Processes {
    /// The recorder started this process.
    pub(super) fn expect(&mut self, child: Pid) {
        self.child = Some(child);
        self.known.entry(child).or_default();
    }

    /// Turns records, oldest first, into events; those from `cutoff` on are left for the next call.
    pub(super) fn handle(
        &mut self,
        records: &mut VecDeque<Payload>,
        cutoff: Nanos,
        sink: Sink<'_>,
    ) {
        self.collect_texts(records);
        let loads: Vec<(Pid, Nanos)> = records
            .iter()
            .filter(|record| record.kind == kind::HELLO)
            .map(|record| (Pid(record.pid), Nanos(record.at)))
            .collect();
        while let Some(record) = records.front()
            && record.at < cutoff.0
        {
            let at = Nanos(record.at);
            let pid = Pid(record.pid);
            let next_load = loads
                .iter()
                .find(|&&(who, when)| who == pid && when > at)
                .map(|&(_, when)| when);
            self.handle_one(record, next_load, sink);
            records.pop_front();
        }
    }

    /// Puts the pieces of `/proc/PID/maps` together; they are of use before the samples that come with them.
    fn collect_texts(&mut self, records: &mut VecDeque<Payload>) {
        records.retain(|record| {
            let process = match record.kind {
                kind::MAPS | kind::MAPS_END => self.known.entry(Pid(record.pid)).or_default(),
                _ => return true,
            };
            let offset = record.body[0] as usize;
            if record.kind == kind::MAPS {
                if offset == 0 {
                    process.text.clear();
                }
                // A piece that was lost leaves a gap; the lines around it are damaged and left out.
                process.text.resize(offset.min(1 << 20), b'\n');
                let bytes = record.body[1..].iter().flat_map(|word| word.to_le_bytes());
                process
                    .text
                    .extend(bytes.take(usize::from(record.length).min(TEXT_BYTES)));
            } else {
                let text = std::mem::take(&mut process.text);
                let mappings = maps::parse(&String::from_utf8_lossy(&text));
                process.dumps.push_back((Nanos(record.at), mappings));
            }
            false
        });
    }

    fn handle_one(&mut self, record: &Payload, next_load: Option<Nanos>, sink: Sink<'_>) {
        let (pid, tid) = (Pid(record.pid), Tid(record.tid));
        let at = Nanos(record.at).max(self.latest);
        self.latest = at;
        let parent_pid = Pid(record.body[3] as u32);
        match record.kind {
            kind::HELLO => {
                let is_new = self
                    .known
                    .get(&pid)
                    .is_none_or(|known| known.threads.is_empty());
                if is_new && self.child != Some(pid) {
                    sink(RawEvent::Born {
                        pid,
                        tid,
                        parent_pid,
                        parent_tid: None,
                        at,
                    });
                }
                let process = self.known.entry(pid).or_default();
                process.threads.clear();
                process.mappings.clear();
                let name = name_in(record);
                process.threads.insert(
                    tid,
                    Thread {
                        name: name.clone(),
                        name_read: None,
                    },
                );
                sink(RawEvent::Named {
                    pid,
                    tid,
                    name,
                    exec: true,
                    at,
                });
                sink(thread_pointer(pid, tid, record.body[2]));
                process.learn_mappings(pid, at, next_load, sink);
            }
            kind::FORKED => {
                let inherited = self
                    .known
                    .get(&parent_pid)
                    .map(|parent| parent.mappings.clone());
                let dumps = self
                    .known
                    .remove(&pid)
                    .map(|known| known.dumps)
                    .unwrap_or_default();
                let mappings = inherited.unwrap_or_default();
                let mut process = Process {
                    mappings,
                    dumps,
                    ..Process::default()
                };
                sink(RawEvent::Born {
                    pid,
                    tid,
                    parent_pid,
                    parent_tid: None,
                    at,
                });
                process.meet(record, at, sink);
                self.known.insert(pid, process);
            }
            kind::BORN => {
                sink(RawEvent::Born {
                    pid,
                    tid,
                    parent_pid: pid,
                    parent_tid: None,
                    at,
                });
                self.known.entry(pid).or_default().meet(record, at, sink);
            }
            kind::ENDED => {
                if let Some(process) = self.known.get_mut(&pid) {
                    process.rename(pid, tid, name_in(record), at, sink);
                    process.threads.remove(&tid);
                    sink(RawEvent::Ended { pid, tid, at });
                }
            }
            kind::SAMPLE => {
                let process = self.known.entry(pid).or_default();
                process.sample(record, at, next_load, sink);
            }
            _ => {} // a kind of a newer agent
        }
    }

    /// Processes that are gone. To be asked before the rings are emptied: all that they wrote is in there, then.
    pub(super) fn dead(&self) -> Vec<Pid> {
        let known = self.known.keys().copied();
        let mut dead: Vec<Pid> = known.filter(|&pid| !is_alive(pid)).collect();
        dead.sort_unstable();
        dead
    }

    /// Looks for processes that an agent was in and that run another program now, without one.
    ///
    /// One that has just begun has not loaded it yet, so it must be found twice.
    pub(super) fn look_for_escapes(&mut self, agent: &str) {
        for (&pid, process) in &mut self.known {
            let Ok(maps) = fs::read(format!("/proc/{pid}/maps")) else {
                continue;
            };
            let has_agent = maps
                .windows(agent.len())
                .any(|window| window == agent.as_bytes());
            if has_agent || maps.is_empty() {
                process.without_agent = 0;
                continue;
            }
            process.without_agent = process.without_agent.saturating_add(1);
            if process.without_agent == 2 {
                self.n_escapes += 1;
            }
        }
    }

    /// How many such processes there were.
    pub(super) const fn n_escapes(&self) -> u32 {
        self.n_escapes
    }

    /// Reports the ends of all threads of a process that is gone.
    pub(super) fn bury(&mut self, pid: Pid, at: Nanos, sink: Sink<'_>) {
        let at = at.max(self.latest);
        self.latest = at;
        let process = self.known.remove(&pid).unwrap_or_default();
        let mut tids: Vec<Tid> = process.threads.keys().copied().collect();
        tids.sort_unstable();
        for tid in tids {
            sink(RawEvent::Ended { pid, tid, at });
        }
    }
}

impl Process {
    /// A thread that was born.
    ///
    /// It has the name of its maker, which nobody wants to hear for each; one that another thread has given it since, or
    /// that its maker has got, is news.
    fn meet(&mut self, record: &Payload, at: Nanos, sink: Sink<'_>) {
        let (pid, tid) = (Pid(record.pid), Tid(record.tid));
        let first = self.threads.get(&Tid(pid.0));
        let thread = Thread {
            name: first.map(|first| first.name.clone()).unwrap_or_default(),
            name_read: None,
        };
        self.threads.insert(tid, thread);
        self.rename(pid, tid, name_in(record), at, sink);
        sink(thread_pointer(pid, tid, record.body[2]));
    }

    /// A thread has this name.
    fn rename(&mut self, pid: Pid, tid: Tid, name: String, at: Nanos, sink: Sink<'_>) {
        let thread = self.threads.entry(tid).or_default();
        if thread.name != name {
            thread.name.clone_from(&name);
            sink(RawEvent::Named {
                pid,
                tid,
                name,
                exec: false,
                at,
            });
        }
    }

    fn sample(&mut self, record: &Payload, at: Nanos, next_load: Option<Nanos>, sink: Sink<'_>) {
        let (pid, tid) = (Pid(record.pid), Tid(record.tid));
        let [ip, rest @ ..] = record.body;
        let mut registers = Registers {
            ip: Avma(ip),
            gpr: [0; 16],
        };
        registers.gpr.copy_from_slice(&rest[..16]);
        self.threads.entry(tid).or_insert_with(|| {
            // The record of its birth was lost.
            sink(RawEvent::Born {
                pid,
                tid,
                parent_pid: pid,
                parent_tid: None,
                at,
            });
            sink(thread_pointer(pid, tid, rest[16]));
            Thread::default()
        });
        let due = self.next_scan.is_none_or(|when| Instant::now() >= when);
        let is_known = |address| {
            self.mappings
                .iter()
                .any(|mapping| mapping.range.contains(address))
        };
        if due || !self.dumps.is_empty() || !is_known(registers.ip) || !is_known(registers.sp()) {
            self.learn_mappings(pid, at, next_load, sink);
        }
        let name_read = self.threads.get(&tid).and_then(|thread| thread.name_read);
        if next_load.is_none() && name_read.is_none_or(|then| at.since(then) > NAME_AGE) {
            if let Ok(name) = fs::read(format!("/proc/{pid}/task/{tid}/comm")) {
                let name = String::from_utf8_lossy(name.strip_suffix(b"\n").unwrap_or(&name));
                self.rename(pid, tid, name.into_owned(), at, sink);
            }
            self.threads.entry(tid).or_default().name_read = Some(at);
        }
        sink(RawEvent::Sample(RawSample {
            pid,
            tid,
            at,
            cpu: record.cpu,
            registers,
        }));
    }

    /// Finds out what is mapped: from what the agent passed on, else from `/proc`. After `next_load` the process runs
    /// another program.
    fn learn_mappings(&mut self, pid: Pid, at: Nanos, next_load: Option<Nanos>, sink: Sink<'_>) {
        let mut found = Vec::new();
        while let Some((when, _)) = self.dumps.front()
            && next_load.is_none_or(|next| *when < next)
            && let Some((_, mappings)) = self.dumps.pop_front()
        {
            found.extend(mappings);
        }
        let now = Instant::now();
        if next_load.is_none() && self.next_scan.is_none_or(|when| now >= when) {
            if let Ok(text) = fs::read(format!("/proc/{pid}/maps")) {
                found.extend(maps::parse(&String::from_utf8_lossy(&text)));
            }
            let pause = (now.elapsed() * SCAN_SHARE).max(SHORTEST_BETWEEN_SCANS);
            self.next_scan = Some(now + pause);
        }
        for mapping in found {
            if !self.mappings.contains(&mapping) {
                self.mappings.retain(|old| !overlaps(old, &mapping));
                self.mappings.push(mapping.clone());
                sink(RawEvent::Mapped { pid, mapping, at });
            }
        }
    }
}

fn overlaps(one: &Mapping, other: &Mapping) -> bool {
    one.range.start < other.range.end && other.range.start < one.range.end
}

fn thread_pointer(pid: Pid, tid: Tid, fs_base: u64) -> RawEvent {
    RawEvent::ThreadPointer {
        pid,
        tid,
        fs_base: Avma(fs_base),
    }
}

/// The name in a record about a thread.
fn name_in(record: &Payload) -> String {
    let bytes: Vec<u8> = record.body[..2]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let name = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Whether the process exists and is not only waiting to be waited for.
fn is_alive(pid: Pid) -> bool {
    let Ok(text) = fs::read(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let text = String::from_utf8_lossy(&text);
    // The state is behind the name, which may have parentheses in it.
    let state = text
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}
