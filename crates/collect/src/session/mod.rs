//! What a sampler delivers becomes the events of a recording.
//!
//! The kernel hands out process and thread numbers again and again; a recording numbers every thread and every address
//! space once. A process that executes a new program gets a new space and a new thread. What the sampler did not
//! tell (threads and mappings that were there before) is looked up when it is first met.

mod build_id;
mod code;
mod lines;
mod module;
mod online;
mod procfs;
mod space;
mod stack;
mod stopped;
mod tls;
mod tries;
mod world;

use hitm_model::{
    Avma, Event, LineSize, Mapping, MappingKind, Nanos, Pid, Registers, Sample, SpaceId, ThreadId,
    Tid,
};
use rustc_hash::FxHashMap;

use self::{
    code::CodeCache,
    lines::{LineKey, Lines},
    space::Mappings,
    tries::Tries,
};
pub use self::{
    procfs::ProcFs,
    stopped::Stopped,
    world::{Standing, World},
};
use crate::{RawEvent, RawSample};

/// The mappings of one process are looked up again at most this often.
const RESCAN_EVERY: Nanos = Nanos::from_millis(250);

/// Numbers threads and spaces, and keeps what is known about those that are alive.
#[derive(Debug)]
pub struct Session<W> {
    world: W,
    line_size: LineSize,
    processes: FxHashMap<Pid, Process>,
    threads: FxHashMap<Tid, Thread>,
    n_threads: u32,
    n_spaces: u32,
    totals: SessionTotals,
    code: CodeCache,
    lines: Lines,
    /// Of looking for the owners of lines.
    owner_tries: FxHashMap<LineKey, Tries>,
    n_captures: u32,
    n_asked: usize,
}

/// What went through a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SessionTotals {
    /// Samples.
    pub samples: u64,
    /// Events that were dropped before they came here.
    pub lost: u64,
}

/// One address space that is alive.
#[derive(Debug)]
struct Process {
    space: SpaceId,
    mappings: Mappings,
    n_threads: usize,
    /// When the mappings were looked up last: what the sampler tells of before is known already.
    scanned: Option<Nanos>,
}

/// One thread that is alive.
#[derive(Debug)]
struct Thread {
    id: ThreadId,
    pid: Pid,
    name: String,
    fs_base: Option<Avma>,
    /// Of looking for the `fs` base.
    fs_base_tries: Tries,
    n_captures: u32,
    n_stops: u32,
    last: Option<(Nanos, Registers)>,
}

/// Where events go.
type Sink<'a> = &'a mut dyn FnMut(Event);

impl<W: World> Session<W> {
    /// A session that knows nothing yet. Meetings on a line are told by `line_size`.
    pub fn new(world: W, line_size: LineSize) -> Self {
        Self {
            world,
            line_size,
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            n_threads: 0,
            n_spaces: 0,
            totals: SessionTotals::default(),
            code: CodeCache::default(),
            lines: Lines::default(),
            owner_tries: FxHashMap::default(),
            n_captures: 0,
            n_asked: 0,
        }
    }

    /// What went through so far.
    pub const fn totals(&self) -> SessionTotals {
        self.totals
    }

    /// Takes in a process that already runs: its mappings and its threads.
    pub fn adopt(&mut self, pid: Pid, sink: Sink<'_>) {
        let at = self.world.now();
        self.adopt_process(pid, at, sink);
        for tid in self.world.threads(pid) {
            self.adopt_thread(pid, tid, at, sink);
        }
    }

    /// Takes in one event.
    pub fn handle(&mut self, raw: RawEvent, sink: Sink<'_>) {
        match raw {
            RawEvent::Sample(sample) => self.sample(sample, sink),
            RawEvent::Born {
                pid,
                tid,
                parent_pid,
                parent_tid: _,
                at,
            } => self.born(pid, tid, parent_pid, at, sink),
            RawEvent::Ended { pid: _, tid, at } => self.ended(tid, at, sink),
            RawEvent::Named {
                pid,
                tid,
                name,
                exec: true,
                at,
            } => self.executed(pid, tid, name, at, sink),
            RawEvent::Named {
                pid,
                tid,
                name,
                exec: false,
                at,
            } => self.named(pid, tid, name, at, sink),
            RawEvent::Mapped { pid, mapping, at } => self.mapped(pid, mapping, at, sink),
            RawEvent::ThreadPointer { pid, tid, fs_base } => {
                let at = self.world.now();
                self.adopt_thread(pid, tid, at, sink);
                self.thread_pointer(tid, fs_base, sink);
            }
            RawEvent::Lost { events, at } => {
                self.totals.lost += events;
                sink(Event::Lost { at, events });
            }
        }
    }

    fn sample(&mut self, raw: RawSample, sink: Sink<'_>) {
        self.totals.samples += 1;
        self.adopt_thread(raw.pid, raw.tid, raw.at, sink);
        let unknown = self.processes.get(&raw.pid).is_none_or(|process| {
            process.scanned.is_none()
                || process.mappings.at(raw.registers.ip).is_none()
                || process.mappings.at(raw.registers.sp()).is_none()
        });
        if unknown {
            self.scan(raw.pid, sink);
        }
        let Some(thread) = self.threads.get_mut(&raw.tid) else {
            return;
        };
        thread.last = Some((raw.at, raw.registers));
        sink(Event::Sample(Sample {
            thread: thread.id,
            at: raw.at,
            cpu: raw.cpu,
            registers: raw.registers,
        }));
        self.look(&raw, sink);
    }

    fn born(&mut self, pid: Pid, tid: Tid, parent_pid: Pid, at: Nanos, sink: Sink<'_>) {
        if let Some(known) = self.threads.get(&tid) {
            if known.pid == pid {
                return;
            }
            // Its number was given away, so its end was missed.
            self.ended(tid, at, sink);
        }
        let name = if pid == parent_pid {
            self.world.thread_name(pid, tid)
        } else {
            None
        };
        let parent_name = || Some(self.threads.get(&Tid(parent_pid.0))?.name.clone());
        let name = name.or_else(parent_name).unwrap_or_default();
        if !self.processes.contains_key(&pid) {
            let parent = self.processes.get(&parent_pid);
            let (mappings, parent) = parent.map_or_else(Default::default, |parent| {
                (parent.mappings.clone(), Some(parent.space))
            });
            self.new_space(pid, parent, mappings, at, sink);
        }
        self.new_thread(pid, tid, name, at, sink);
    }

    fn ended(&mut self, tid: Tid, at: Nanos, sink: Sink<'_>) {
        let Some(thread) = self.threads.remove(&tid) else {
            return;
        };
        sink(Event::ThreadEnded {
            thread: thread.id,
            at,
        });
        if let Some(process) = self.processes.get_mut(&thread.pid) {
            process.n_threads = process.n_threads.saturating_sub(1);
            if process.n_threads == 0 {
                self.processes.remove(&thread.pid);
            }
        }
    }

    fn executed(&mut self, pid: Pid, tid: Tid, name: String, at: Nanos, sink: Sink<'_>) {
        let mut gone: Vec<Tid> = self
            .threads
            .iter()
            .filter(|(_, thread)| thread.pid == pid)
            .map(|(&tid, _)| tid)
            .collect();
        gone.sort_unstable();
        for tid in gone {
            self.ended(tid, at, sink);
        }
        self.processes.remove(&pid);
        self.new_space(pid, None, Mappings::default(), at, sink);
        self.new_thread(pid, tid, name, at, sink);
    }

    fn named(&mut self, pid: Pid, tid: Tid, name: String, at: Nanos, sink: Sink<'_>) {
        self.adopt_thread(pid, tid, at, sink);
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.name != name
        {
            thread.name.clone_from(&name);
            let thread = thread.id;
            sink(Event::ThreadNamed { thread, name, at });
        }
    }

    fn mapped(&mut self, pid: Pid, mapping: Mapping, at: Nanos, sink: Sink<'_>) {
        self.adopt_process(pid, at, sink);
        let Some(process) = self.processes.get(&pid) else {
            return;
        };
        // What was looked up later is what counts, but it does not have what is gone again.
        let outdated = process.scanned.is_some_and(|scanned| at <= scanned)
            && process.mappings.overlaps(mapping.range);
        if !outdated {
            self.map(pid, mapping, at, sink);
        }
    }

    /// Enters a mapping, unless it is known.
    fn map(&mut self, pid: Pid, mut mapping: Mapping, at: Nanos, sink: Sink<'_>) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        if process.mappings.has(&mapping) {
            return;
        }
        let found = self.world.build_id(pid, &mapping);
        if let MappingKind::File { build_id, .. } = &mut mapping.kind {
            *build_id = found;
        }
        process.mappings.insert(mapping.clone());
        if mapping.executable {
            self.code.forget(process.space, mapping.range);
        }
        sink(Event::Mapping {
            space: process.space,
            at,
            mapping,
        });
    }

    /// Looks up the mappings of a process, if that was not done just before.
    fn scan(&mut self, pid: Pid, sink: Sink<'_>) {
        let now = self.world.now();
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        if process
            .scanned
            .is_some_and(|scanned| now.since(scanned) < RESCAN_EVERY)
        {
            return;
        }
        process.scanned = Some(now);
        for mapping in self.world.mappings(pid) {
            self.map(pid, mapping, now, sink);
        }
    }

    fn thread_pointer(&mut self, tid: Tid, fs_base: Avma, sink: Sink<'_>) {
        if let Some(thread) = self.threads.get_mut(&tid)
            && thread.fs_base != Some(fs_base)
        {
            thread.fs_base = Some(fs_base);
            let thread = thread.id;
            sink(Event::ThreadPointer { thread, fs_base });
        }
    }

    fn adopt_process(&mut self, pid: Pid, at: Nanos, sink: Sink<'_>) {
        if !self.processes.contains_key(&pid) {
            self.new_space(pid, None, Mappings::default(), at, sink);
            self.scan(pid, sink);
        }
    }

    fn adopt_thread(&mut self, pid: Pid, tid: Tid, at: Nanos, sink: Sink<'_>) {
        if let Some(known) = self.threads.get(&tid) {
            if known.pid == pid {
                return;
            }
            self.ended(tid, at, sink);
        }
        self.adopt_process(pid, at, sink);
        let name = self.world.thread_name(pid, tid).unwrap_or_default();
        self.new_thread(pid, tid, name, at, sink);
    }

    fn new_space(
        &mut self,
        pid: Pid,
        parent: Option<SpaceId>,
        mappings: Mappings,
        at: Nanos,
        sink: Sink<'_>,
    ) {
        let space = SpaceId(self.n_spaces);
        self.n_spaces += 1;
        let process = Process {
            space,
            mappings,
            n_threads: 0,
            scanned: None,
        };
        self.processes.insert(pid, process);
        sink(Event::SpaceBorn {
            space,
            pid,
            parent,
            at,
        });
    }

    fn new_thread(&mut self, pid: Pid, tid: Tid, name: String, at: Nanos, sink: Sink<'_>) {
        let Some(process) = self.processes.get_mut(&pid) else {
            return;
        };
        process.n_threads += 1;
        let id = ThreadId(self.n_threads);
        self.n_threads += 1;
        self.threads.insert(
            tid,
            Thread {
                id,
                pid,
                name: name.clone(),
                fs_base: None,
                fs_base_tries: Tries::default(),
                n_captures: 0,
                n_stops: 0,
                last: None,
            },
        );
        sink(Event::ThreadBorn {
            thread: id,
            space: process.space,
            tid,
            name,
            at,
        });
    }
}
