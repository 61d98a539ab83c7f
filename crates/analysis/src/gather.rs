//! From a recording to the touches of the lines that can matter.
//!
//! The recording is read twice: the first time to see which lines at least two threads touch, one of them writing; the
//! second time to keep the touches of those lines. Most lines are private, so this bounds memory by what is shared.

use hitm_model::{
    Avma, AvmaRange, ByteRange, Event, LineAddress, LineSize, Nanos, Registers, Sample, SpaceId,
    Svma, ThreadId,
};
use rustc_hash::FxHashMap;

use crate::binaries::{ModuleId, Modules};
use crate::meet::Running;
use crate::prove::Windows;
use crate::samples::{Context, Counts, Decoder, base_value};
use crate::touch::{SiteId, Touch};
use crate::world::World;

/// A recording that can be read again from its start.
pub trait Recording {
    /// All its events, in order.
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_>;
}

impl Recording for Vec<Event> {
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_> {
        Box::new(self.iter().cloned())
    }
}

/// A recording without the samples that show what we did rather than what the program does.
struct Unmoved<'a> {
    recording: &'a dyn Recording,
    moved: &'a Windows,
}

impl Recording for Unmoved<'_> {
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_> {
        let all = self.recording.events();
        if self.moved.is_empty() {
            return all;
        }
        Box::new(all.filter(
            |event| !matches!(event, Event::Sample(sample) if self.moved.contain(sample.at)),
        ))
    }
}

/// A line in an address space.
pub(crate) type LineKey = (SpaceId, LineAddress);

/// An access as one sample showed it, kept for asking about types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exemplar {
    pub(crate) module: ModuleId,
    pub(crate) ip: Svma,
    pub(crate) instruction: Svma,
    /// The first byte accessed, in the process; may be on the line before.
    pub(crate) address: Avma,
    pub(crate) size: u32,
    pub(crate) registers: Registers,
    pub(crate) base: Option<(hitm_model::Register, Avma)>,
}

impl Exemplar {
    fn new(context: &Context<'_>, registers: &Registers) -> Self {
        let base = context.operand.base.as_ref().map(|(register, _)| *register);
        Self {
            module: context.module,
            ip: context.ip,
            instruction: context.operand.instruction,
            address: context.address,
            size: context.operand.size,
            registers: *registers,
            base: base.zip(base_value(context, registers)),
        }
    }
}

/// What exemplars are kept by.
pub(crate) type Place = (LineKey, ThreadId, ByteRange, SiteId);

/// The touches of shared lines and all that is needed to explain them.
pub(crate) struct Gathered<'d, 's> {
    pub(crate) world: World,
    pub(crate) decoder: Decoder<'d, 's>,
    pub(crate) counts: Counts,
    pub(crate) co_running: Option<f64>,
    /// Threads that write to memory other than their own stack.
    pub(crate) writing_threads: u64,
    /// Touches in order of time, by line.
    pub(crate) lines: Vec<(LineKey, Vec<Touch>)>,
    pub(crate) exemplars: FxHashMap<Place, Exemplar>,
    pub(crate) running: Running,
}

/// Reads the recording, but for samples taken while threads were put elsewhere.
pub(crate) fn gather<'d, 's>(
    recording: &dyn Recording,
    modules: Modules<'d, 's>,
    line_size: LineSize,
    window: Nanos,
    moved: &Windows,
) -> Gathered<'d, 's> {
    let mut decoder = Decoder::new(modules, line_size);
    let recording = &Unmoved { recording, moved };
    let (survey, world) = survey(recording, &mut decoder, window);
    let co_running = survey.co_running();
    let writing_threads = survey.writers.len() as u64;
    let counts = decoder.counts;
    let shared = survey.lines.into_iter();
    let shared = shared.filter(|(_, seen)| seen.several && seen.written);
    let mut lines: Vec<(LineKey, Vec<Touch>)> = shared.map(|(key, _)| (key, Vec::new())).collect();
    let mut exemplars = FxHashMap::default();
    let mut running = Running::default();
    if !lines.is_empty() {
        decoder.rewind();
        running = keep(recording, &mut decoder, &world, &mut lines, &mut exemplars);
    }
    Gathered {
        world,
        decoder,
        counts,
        co_running,
        writing_threads,
        lines,
        exemplars,
        running,
    }
}

/// Keeps the touches of some lines, in order of time, and an exemplar of each kind. Says when the threads ran.
fn keep(
    recording: &dyn Recording,
    decoder: &mut Decoder<'_, '_>,
    known: &World,
    lines: &mut [(LineKey, Vec<Touch>)],
    exemplars: &mut FxHashMap<Place, Exemplar>,
) -> Running {
    let numbers: FxHashMap<LineKey, usize> = lines
        .iter()
        .enumerate()
        .map(|(number, (key, _))| (*key, number))
        .collect();
    let mut world = World::default();
    let mut running = Running::default();
    for event in recording.events() {
        world.apply(&event);
        decoder.note(&event);
        match &event {
            Event::ThreadBorn { thread, .. } => {
                // What is learnt of a thread later holds from its start.
                if let (Some(now), Some(later)) =
                    (world.threads.get_mut(thread), known.threads.get(thread))
                {
                    now.fs_base = later.fs_base;
                }
            }
            Event::Sample(sample) => {
                running.note(sample.thread, sample.at);
                decoder.accesses(&world, sample, |space, access| {
                    let key = (space, access.line);
                    let Some(&number) = numbers.get(&key) else {
                        return;
                    };
                    let touch = access.touch;
                    lines[number].1.push(touch);
                    exemplars
                        .entry((key, touch.thread, touch.range, touch.site))
                        .or_insert_with(|| Exemplar::new(&access.context, &sample.registers));
                });
            }
            _ => {}
        }
    }
    for (_, touches) in lines {
        touches.sort_by_key(|touch| touch.at);
    }
    running.sort();
    running
}

/// Who was seen at a line.
struct Seen {
    first: ThreadId,
    several: bool,
    written: bool,
}

struct Survey {
    lines: FxHashMap<LineKey, Seen>,
    writers: rustc_hash::FxHashSet<ThreadId>,
    overlap: Overlap,
}

impl Survey {
    fn co_running(&self) -> Option<f64> {
        self.overlap.share()
    }
}

fn survey(
    recording: &dyn Recording,
    decoder: &mut Decoder<'_, '_>,
    window: Nanos,
) -> (Survey, World) {
    let mut world = World::default();
    let mut survey = Survey {
        lines: FxHashMap::default(),
        writers: rustc_hash::FxHashSet::default(),
        overlap: Overlap::new(window),
    };
    for event in recording.events() {
        world.apply(&event);
        decoder.note(&event);
        let Event::Sample(sample) = &event else {
            continue;
        };
        survey.overlap.see(sample, &world);
        let (lines, writers) = (&mut survey.lines, &mut survey.writers);
        let stack = own_stack(sample, &world);
        decoder.accesses(&world, sample, |space, access| {
            let thread = sample.thread;
            let seen = lines.entry((space, access.line)).or_insert(Seen {
                first: thread,
                several: false,
                written: false,
            });
            seen.several |= seen.first != thread;
            seen.written |= access.touch.kind.writes();
            if access.touch.kind.writes() && !stack.contains(access.context.address) {
                writers.insert(thread);
            }
        });
    }
    survey.overlap.finish();
    (survey, world)
}

/// The stack of the thread that a sample is of; where it is not known, what is near the stack pointer.
fn own_stack(sample: &Sample, world: &World) -> AvmaRange {
    /// The red zone below the stack pointer (System V ABI for AMD64, 3.2.2), and more than any frame above it.
    const BELOW: u64 = 128;
    const ABOVE: u64 = 1 << 20;
    let known = world.threads.get(&sample.thread);
    known.and_then(|thread| thread.stack).unwrap_or_else(|| {
        let pointer = sample.registers.gpr[hitm_model::Register::Rsp.index()];
        AvmaRange::new(
            Avma(pointer.saturating_sub(BELOW)),
            Avma(pointer.saturating_add(ABOVE)),
        )
    })
}

/// In how much of the time threads ran side by side.
///
/// Time is cut into windows; a window counts as co-running if it has samples of two threads of one space on different
/// processors, and as running if it has any sample.
struct Overlap {
    window: u64,
    current: u64,
    seen: Vec<(SpaceId, ThreadId, u32)>,
    running: u64,
    co_running: u64,
    threads: rustc_hash::FxHashSet<ThreadId>,
}

impl Overlap {
    fn new(window: Nanos) -> Self {
        Self {
            window: window.0.max(1),
            current: 0,
            seen: Vec::new(),
            running: 0,
            co_running: 0,
            threads: rustc_hash::FxHashSet::default(),
        }
    }

    fn see(&mut self, sample: &Sample, world: &World) {
        let Some(thread) = world.threads.get(&sample.thread) else {
            return;
        };
        let window = sample.at.0 / self.window;
        if window != self.current {
            self.finish();
            self.current = window;
        }
        self.threads.insert(sample.thread);
        let seen = (thread.space, sample.thread, sample.cpu);
        if !self.seen.contains(&seen) {
            self.seen.push(seen);
        }
    }

    fn finish(&mut self) {
        if !self.seen.is_empty() {
            self.running += 1;
            let together = self.seen.iter().enumerate().any(|(i, a)| {
                self.seen[i + 1..]
                    .iter()
                    .any(|b| a.0 == b.0 && a.1 != b.1 && a.2 != b.2)
            });
            self.co_running += u64::from(together);
        }
        self.seen.clear();
    }

    fn share(&self) -> Option<f64> {
        (self.threads.len() > 1 && self.running > 0)
            .then(|| self.co_running as f64 / self.running as f64)
    }
}
