//! What is looked at while the program runs: who meets whom on a line, and, if that is on somebody's stack or in
//! thread-local storage, whose.
//!
//! A stack is gone when the recording is analysed, so the frames of its owner are read at the first meeting.

use std::rc::Rc;

use hitm_binary::decode::Operand;
use hitm_model::{
    Avma, AvmaRange, Bias, Event, LineAddress, Mapping, MappingKind, Nanos, Pid, Registers, Tid,
};

use super::{
    Session, Sink,
    lines::{Access, LineKey},
    stack::{self, Start, Unwound},
    stopped::Stopped,
    tls,
    world::World,
};
use crate::RawSample;

/// Operands this near to the instruction pointer are looked at, by [`Operand::place`].
const NEAR: std::ops::RangeInclusive<i32> = -8..=4;

/// How often the stacks of one recording, and of one thread, are read.
const MOST_CAPTURES: u32 = 256;
const MOST_CAPTURES_OF_A_THREAD: u32 = 8;

/// How often one thread is stopped for its registers.
const MOST_STOPS_OF_A_THREAD: u32 = 4;

/// For how many lines an owner is looked for.
const MOST_LOOKUPS: usize = 4096;

/// How often threads are asked where they stand to find the owner of a stack.
const MOST_ASKED: usize = 32_768;

/// Leaf functions use so much below the stack pointer (System V ABI: the red zone).
const RED_ZONE: u64 = 128;

/// Whose stack holds an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Owner {
    /// That of the thread that stands there.
    Thread(Tid, Start),
    /// That of none of the threads.
    Nobody,
    /// None of those that told where they stand; another runs and was never sampled.
    Untold,
}

impl<W: World> Session<W> {
    /// Looks at what the code around a sample accesses.
    pub(super) fn look(&mut self, raw: &RawSample, sink: Sink<'_>) {
        let Some(process) = self.processes.get(&raw.pid) else {
            return;
        };
        let key = (process.space, raw.pid);
        let ip = raw.registers.ip;
        let Some(block) = self.code.block(&self.world, key, &process.mappings, ip) else {
            return;
        };
        let block = Rc::clone(&block);
        for operand in &block.operands {
            if NEAR.contains(&operand.place) && !operand.implicit_stack {
                self.operand(raw, operand, sink);
            }
        }
    }

    fn operand(&mut self, raw: &RawSample, operand: &Operand, sink: Sink<'_>) {
        if operand.address.needs_fs_base() {
            self.find_thread_pointer(raw.pid, raw.tid, sink);
        }
        let Some(thread) = self.threads.get(&raw.tid) else {
            return;
        };
        let (id, fs_base) = (thread.id, thread.fs_base);
        let Some(range) = operand.resolve(&raw.registers, Bias(0), fs_base) else {
            return;
        };
        if !self.is_mapped(raw.pid, range.start) {
            self.scan(raw.pid, sink);
        }
        let Some(process) = self.processes.get(&raw.pid) else {
            return;
        };
        let Some(mapping) = process.mappings.at(range.start) else {
            return;
        };
        // What nobody may write to is not fought over.
        if !mapping.writable {
            return;
        }
        let space = process.space;
        let access = Access {
            thread: id,
            at: raw.at,
            writes: operand.kind.writes(),
        };
        for (line, _) in self.line_size.parts(range.start, operand.size) {
            if self.lines.enter((space, line), access) {
                self.met(raw.pid, (space, line), range.start, raw.at, sink);
            }
        }
    }

    /// Threads have met: sees to it that the recording says whose memory that is.
    fn met(&mut self, pid: Pid, line: LineKey, address: Avma, at: Nanos, sink: Sink<'_>) {
        let Some(process) = self.processes.get(&pid) else {
            return;
        };
        let Some(mapping) = process.mappings.at(address) else {
            return;
        };
        let may_be_stack = matches!(
            mapping.kind,
            MappingKind::MainStack | MappingKind::Anonymous
        );
        let full = self.n_captures >= MOST_CAPTURES
            || self.n_asked >= MOST_ASKED
            || self.owner_tries.len() >= MOST_LOOKUPS;
        let now = self.world.now();
        if !may_be_stack || full || !self.owner_tries.entry(line).or_default().start(now) {
            return;
        }
        let mapping = mapping.clone();
        // A frame that was not there yet, or is hidden, may be seen at a later meeting.
        let is_over = match self.owner(pid, &mapping, address) {
            Owner::Thread(tid, start) => self
                .capture(pid, tid, start, &mapping, at, sink)
                .is_some_and(|end| end > address),
            other => {
                // The main thread's thread-local storage is in a mapping of its own.
                self.find_thread_pointer(pid, Tid(pid.0), sink);
                other == Owner::Nobody
            }
        };
        if is_over && let Some(tries) = self.owner_tries.get_mut(&line) {
            tries.end();
        }
    }

    /// The thread on whose stack `address` is, and where it stands: the one with the nearest stack pointer below.
    fn owner(&mut self, pid: Pid, stack: &Mapping, address: Avma) -> Owner {
        let main = stack.kind == MappingKind::MainStack;
        let mut tids: Vec<Tid> = self
            .threads
            .iter()
            .filter(|(tid, thread)| thread.pid == pid && (!main || tid.0 == pid.0))
            .map(|(&tid, _)| tid)
            .collect();
        tids.sort_unstable();
        self.n_asked += tids.len();
        let mut nearest: Option<(Tid, Start)> = None;
        let mut all_told = true;
        for tid in tids {
            let sampled = self.threads.get(&tid).and_then(|thread| thread.last);
            let sampled = sampled.map(|(_, registers)| registers);
            // A thread that was sampled elsewhere need not be asked.
            if sampled.is_some_and(|registers| !stack.range.contains(registers.sp())) {
                continue;
            }
            let Some(start) = self.start(pid, tid, sampled) else {
                all_told = false;
                continue;
            };
            let is_below = start.sp.0 <= address.0.saturating_add(RED_ZONE);
            if stack.range.contains(start.sp)
                && is_below
                && nearest.is_none_or(|(_, other)| start.sp >= other.sp)
            {
                nearest = Some((tid, start));
            }
        }
        match nearest {
            Some((tid, start)) => Owner::Thread(tid, start),
            None if all_told => Owner::Nobody,
            None => Owner::Untold,
        }
    }

    /// Where a thread stands: exactly if it sleeps, else where it was sampled last.
    fn start(&self, pid: Pid, tid: Tid, sampled: Option<Registers>) -> Option<Start> {
        if let Some(standing) = self.world.standing(pid, tid) {
            return Some(Start {
                ip: standing.ip,
                sp: standing.sp,
                registers: None,
            });
        }
        let registers = sampled?;
        Some(Start {
            ip: registers.ip,
            sp: registers.sp(),
            registers: Some(registers),
        })
    }

    /// Reads the stack of a thread; the address behind its outermost frame.
    fn capture(
        &mut self,
        pid: Pid,
        tid: Tid,
        start: Start,
        mapping: &Mapping,
        at: Nanos,
        sink: Sink<'_>,
    ) -> Option<Avma> {
        let thread = self.threads.get_mut(&tid)?;
        if thread.n_captures >= MOST_CAPTURES_OF_A_THREAD {
            return Some(mapping.range.end);
        }
        let first = thread.n_captures == 0;
        thread.n_captures += 1;
        self.n_captures += 1;
        let thread = thread.id;
        if first {
            sink(Event::Stack {
                thread,
                range: mapping.range,
            });
            self.find_thread_pointer(pid, tid, sink);
        }
        let mut unwound = self.unwind(pid, start, mapping.range)?;
        if unwound.lacks_register
            && let Some(start) = self.stopped(pid, tid, start, sink)
        {
            unwound = self.unwind(pid, start, mapping.range)?;
        }
        let frames = unwound.frames;
        let end = frames.last()?.cfa;
        sink(Event::Frames { thread, at, frames });
        Some(end)
    }

    fn unwind(&mut self, pid: Pid, start: Start, stack: AvmaRange) -> Option<Unwound> {
        let process = self.processes.get(&pid)?;
        Some(stack::unwind(
            &self.world,
            &mut self.code,
            (process.space, pid),
            &process.mappings,
            start,
            stack,
        ))
    }

    /// Where a thread stands with all registers, if it still sleeps there and may be stopped for them.
    fn stopped(&mut self, pid: Pid, tid: Tid, start: Start, sink: Sink<'_>) -> Option<Start> {
        let thread = self.threads.get_mut(&tid)?;
        if start.registers.is_some() || thread.n_stops >= MOST_STOPS_OF_A_THREAD {
            return None;
        }
        thread.n_stops += 1;
        let Stopped { registers, fs_base } = self.world.registers(pid, tid)?;
        self.thread_pointer(tid, fs_base, sink);
        (registers.sp() == start.sp).then_some(Start {
            ip: registers.ip,
            sp: start.sp,
            registers: Some(registers),
        })
    }

    /// Looks for a thread's `fs` base; again and again, but ever more seldom: what is mapped may not be known at first,
    /// and a new thread may not have filled in its thread-control block yet.
    fn find_thread_pointer(&mut self, pid: Pid, tid: Tid, sink: Sink<'_>) {
        let Some(thread) = self.threads.get_mut(&tid) else {
            return;
        };
        if thread.fs_base.is_some() || !thread.fs_base_tries.start(self.world.now()) {
            return;
        }
        let sampled = thread.last.map(|(_, registers)| registers.sp());
        let Some(process) = self.processes.get(&pid) else {
            return;
        };
        let found = if tid.0 == pid.0 {
            tls::of_main(&self.world, pid, &process.mappings)
        } else {
            let standing = || Some(self.world.standing(pid, tid)?.sp);
            sampled.or_else(standing).and_then(|sp| {
                let AvmaRange { start, end } = process.mappings.at(sp)?.range;
                tls::above(&self.world, pid, tid, sp, AvmaRange::new(start, end))
            })
        };
        if let Some(fs_base) = found {
            self.thread_pointer(tid, fs_base, sink);
        }
    }

    fn is_mapped(&self, pid: Pid, address: Avma) -> bool {
        self.processes
            .get(&pid)
            .is_some_and(|process| process.mappings.at(address).is_some())
    }

    /// The line that threads met on most often so far, what is there, and how often.
    pub fn hottest(&self) -> Option<(LineAddress, String, u64)> {
        let ((space, line), meetings) = self.lines.hottest()?;
        let mut processes = self.processes.values();
        let mapping = processes
            .find(|process| process.space == space)
            .and_then(|process| process.mappings.at(line.0));
        Some((line, place(mapping, line.0), meetings))
    }
}

/// What is at an address, in a few words.
fn place(mapping: Option<&Mapping>, address: Avma) -> String {
    match mapping.map(|mapping| (&mapping.kind, mapping.range)) {
        Some((MappingKind::File { path, offset, .. }, range)) => {
            let name = path.rsplit('/').next().unwrap_or(path);
            let offset = offset.wrapping_add(address.0 - range.start.0);
            format!("{name}+{offset:#x}")
        }
        Some((MappingKind::Heap, _)) => "the heap".into(),
        Some((MappingKind::MainStack, _)) => "the main thread's stack".into(),
        Some((MappingKind::Special(name), _)) => name.clone(),
        Some((MappingKind::Anonymous, _)) | None => "anonymous memory".into(),
    }
}
