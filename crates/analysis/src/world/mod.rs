//! Which threads and address spaces there are, as the events tell.

mod space;

use std::collections::BTreeMap;

use hitm_model::{
    Avma, AvmaRange, Event, ExitStatus, Machine, MappingKind, Nanos, Pid, RunInfo, SamplerInfo,
    SpaceId, StackFrame, StopReason, ThreadId, Tid,
};
use rustc_hash::FxHashMap;

pub(crate) use space::Space;

/// A thread of the recording.
#[derive(Clone, Debug)]
pub(crate) struct Thread {
    pub(crate) space: SpaceId,
    pub(crate) tid: Tid,
    pub(crate) name: String,
    pub(crate) samples: u64,
    pub(crate) fs_base: Option<Avma>,
    pub(crate) stack: Option<AvmaRange>,
    /// Its call stack, innermost first, the last time it was read.
    pub(crate) frames: Vec<StackFrame>,
}

/// Everything the events have told so far.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) machine: Option<Machine>,
    pub(crate) run: Option<RunInfo>,
    pub(crate) sampler: Option<SamplerInfo>,
    pub(crate) child: Option<ExitStatus>,
    pub(crate) stopped: Option<StopReason>,
    pub(crate) threads: BTreeMap<ThreadId, Thread>,
    pub(crate) spaces: FxHashMap<SpaceId, Space>,
    pub(crate) lost: u64,
    first: Option<Nanos>,
    last: Nanos,
    ended: Option<Nanos>,
}

impl World {
    /// Takes in an event.
    pub(crate) fn apply(&mut self, event: &Event) {
        if let Some(at) = time(event) {
            self.first.get_or_insert(at);
            self.last = self.last.max(at);
        }
        match event {
            Event::Machine(machine) => self.machine = Some(machine.clone()),
            Event::Run(run) => self.run = Some(run.clone()),
            Event::Sampler(sampler) => self.sampler = Some(sampler.clone()),
            Event::SpaceBorn {
                space, pid, parent, ..
            } => self.space_born(*space, *pid, *parent),
            Event::Mapping { space, mapping, .. } => {
                self.spaces.entry(*space).or_default().map(mapping.clone());
            }
            Event::ThreadBorn {
                thread,
                space,
                tid,
                name,
                ..
            } => {
                let known = self
                    .threads
                    .entry(*thread)
                    .or_insert_with(|| Thread::new(*space, *tid));
                known.name.clone_from(name);
                self.spaces.entry(*space).or_default();
            }
            Event::ThreadNamed { thread, name, .. } => {
                if let Some(thread) = self.threads.get_mut(thread) {
                    thread.name.clone_from(name);
                }
            }
            Event::ThreadEnded { .. } => {}
            Event::Sample(sample) => {
                if let Some(thread) = self.threads.get_mut(&sample.thread) {
                    thread.samples += 1;
                }
            }
            Event::ThreadPointer { thread, fs_base } => {
                if let Some(thread) = self.threads.get_mut(thread) {
                    thread.fs_base = Some(*fs_base);
                }
            }
            Event::Stack { thread, range } => {
                if let Some(thread) = self.threads.get_mut(thread) {
                    thread.stack = Some(*range);
                }
            }
            Event::Frames { thread, frames, .. } => {
                if let Some(thread) = self.threads.get_mut(thread) {
                    thread.frames.clone_from(frames);
                }
            }
            Event::Lost { events, .. } => self.lost += events,
            Event::ChildEnded { pid, status } => {
                if self.run.as_ref().is_none_or(|run| run.pid == *pid) {
                    self.child = Some(*status);
                }
            }
            Event::Ended { at, reason } => {
                self.ended = Some(*at);
                self.stopped = Some(reason.clone());
            }
            Event::Group(_) | Event::Window(_) | Event::GroupEnded(_) => {}
        }
    }

    fn space_born(&mut self, space: SpaceId, pid: Pid, parent: Option<SpaceId>) {
        let inherited = parent.and_then(|parent| self.spaces.get(&parent)).cloned();
        let mut born = inherited.unwrap_or_default();
        born.pid = Some(pid);
        self.spaces.insert(space, born);
    }

    /// From the start of the recording to its end, or between the events that there are where these are not known.
    pub(crate) fn duration(&self) -> Nanos {
        match (&self.run, self.ended) {
            (Some(run), Some(ended)) => ended.since(run.started),
            _ => self.last.since(self.first.unwrap_or_default()),
        }
    }

    /// The thread whose stack holds `address`, if one is known to. The main thread's stack is known by its mapping, even
    /// if the recorder could not look at it.
    pub(crate) fn stack_owner(&self, id: SpaceId, address: Avma) -> Option<(ThreadId, &Thread)> {
        let space = self.spaces.get(&id)?;
        let on_main_stack = || {
            let mapping = space.at(address);
            mapping.is_some_and(|mapping| mapping.kind == MappingKind::MainStack)
        };
        let threads = || self.threads.iter().filter(|(_, thread)| thread.space == id);
        let main =
            || threads().find(|(_, thread)| space.pid.is_some_and(|pid| pid.0 == thread.tid.0));
        threads()
            .find(|(_, thread)| thread.stack.is_some_and(|stack| stack.contains(address)))
            .or_else(|| on_main_stack().then(main).flatten())
            .map(|(id, thread)| (*id, thread))
    }
}

/// When an event happened, if it tells.
fn time(event: &Event) -> Option<Nanos> {
    match event {
        Event::Sample(sample) => Some(sample.at),
        Event::SpaceBorn { at, .. }
        | Event::Mapping { at, .. }
        | Event::ThreadBorn { at, .. }
        | Event::ThreadNamed { at, .. }
        | Event::ThreadEnded { at, .. }
        | Event::Frames { at, .. }
        | Event::Lost { at, .. }
        | Event::Ended { at, .. } => Some(*at),
        Event::Machine(_)
        | Event::Run(_)
        | Event::Sampler(_)
        | Event::ThreadPointer { .. }
        | Event::Stack { .. }
        | Event::ChildEnded { .. }
        | Event::Group(_)
        | Event::GroupEnded(_) => None,
        Event::Window(window) => Some(window.end),
    }
}

impl Thread {
    /// Whether an address is above the outermost frame of the stack, where the thread's control block is.
    pub(crate) fn is_control_block(&self, address: Avma) -> bool {
        let (Some(stack), Some(base), Some(outermost)) =
            (self.stack, self.fs_base, self.frames.last())
        else {
            return false;
        };
        stack.contains(base) && outermost.cfa <= base && outermost.cfa <= address
    }

    fn new(space: SpaceId, tid: Tid) -> Self {
        Self {
            space,
            tid,
            name: String::new(),
            samples: 0,
            fs_base: None,
            stack: None,
            frames: Vec::new(),
        }
    }
}
