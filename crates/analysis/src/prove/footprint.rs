//! What the threads of a group touched in windows, as their samples show it.

use hitm_model::{
    Avma, ByteRange, LineAddress, LineSize, Placement, Register, Sample, Svma, ThreadId,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::binaries::ModuleId;
use crate::samples::Decoder;
use crate::world::World;

/// Places of an instruction that are remembered.
const MOST_PLACES: usize = 32;

/// An instruction of a binary.
pub(super) type Instruction = (ModuleId, Svma);

/// What one thread touched.
#[derive(Debug, Default)]
pub(super) struct Footprint {
    /// Samples at each instruction pointer, apart and together.
    pub(super) ips: FxHashMap<Avma, [u64; 2]>,
    /// Samples on each line.
    pub(super) lines: FxHashMap<LineAddress, u64>,
    /// Bytes that it wrote.
    pub(super) written: FxHashSet<(LineAddress, ByteRange)>,
    /// What an instruction touched, and the register it names as base.
    pub(super) by_instruction: FxHashMap<Instruction, Places>,
    /// Of the samples in one window after the other: the address that each instruction touched, by sample.
    pub(super) walks: FxHashMap<Instruction, Vec<Visit>>,
    /// All its samples.
    pub(super) samples: u64,
}

/// What an instruction touched.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) base: Option<Register>,
    pub(super) bytes: Vec<(LineAddress, ByteRange)>,
}

/// A sample that shows which address an instruction touched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit {
    pub(super) window: usize,
    /// The sample's number in the window.
    pub(super) index: usize,
    pub(super) address: Avma,
}

impl Footprint {
    /// Of the samples in windows, each list one window's.
    pub(super) fn of(
        windows: &[(Placement, &[Sample])],
        decoder: &mut Decoder<'_, '_>,
        world: &World,
    ) -> Self {
        let mut found = Self::default();
        for (window, (placement, samples)) in windows.iter().enumerate() {
            for (index, sample) in samples.iter().enumerate() {
                found.samples += 1;
                found.ips.entry(sample.registers.ip).or_default()[*placement as usize] += 1;
                decoder.accesses(world, sample, |_, access| {
                    let (line, touch) = (access.line, access.touch);
                    let operand = access.context.operand;
                    if operand.implicit_stack {
                        return;
                    }
                    *found.lines.entry(line).or_default() += 1;
                    if touch.kind.writes() {
                        found.written.insert((line, touch.range));
                    }
                    let key = (access.context.module, operand.instruction);
                    let places = found.by_instruction.entry(key).or_default();
                    places.base = operand.base.as_ref().map(|(register, _)| *register);
                    let place = (line, touch.range);
                    if places.bytes.len() < MOST_PLACES && !places.bytes.contains(&place) {
                        places.bytes.push(place);
                    }
                    found.walks.entry(key).or_default().push(Visit {
                        window,
                        index,
                        address: access.context.address,
                    });
                });
            }
        }
        found
    }

    /// Whether an instruction touched bytes that one of `others` writes.
    pub(super) fn watches(&self, instruction: Instruction, others: &[&Self]) -> bool {
        let Some(places) = self.by_instruction.get(&instruction) else {
            return false;
        };
        places.bytes.iter().any(|(line, range)| {
            let mut written = others.iter().flat_map(|other| &other.written);
            written.any(|(at, bytes)| at == line && bytes.overlaps(*range))
        })
    }

    /// Lines that are more than a rarity of its samples, in order.
    pub(super) fn main_lines(&self) -> Vec<LineAddress> {
        let mut lines: Vec<LineAddress> = self
            .lines
            .iter()
            .filter(|(_, samples)| **samples * 200 >= self.samples)
            .map(|(line, _)| *line)
            .collect();
        lines.sort_unstable();
        lines
    }

    /// Whether it shares a line that one of the two writes with another thread.
    pub(super) fn shares_with(&self, other: &Self) -> bool {
        let writes = |one: &Self, line| one.written.iter().any(|(at, _)| *at == line);
        let (mine, theirs) = (self.main_lines(), other.main_lines());
        mine.iter()
            .filter(|line| theirs.binary_search(line).is_ok())
            .any(|&line| writes(self, line) || writes(other, line))
    }

    /// Bytes that it uses, by capture and recapture: D. G. Chapman, "Some properties of the hypergeometric distribution
    /// with applications to zoological censuses" (1951).
    pub(super) fn bytes_used(&self, line_size: LineSize) -> f64 {
        let halves = [0, 1].map(|half| -> FxHashSet<u64> {
            let line = |visit: &Visit| line_size.line_of(visit.address).0.0;
            let visits = self.walks.values().flatten();
            visits
                .filter(|visit| visit.index % 2 == half)
                .map(line)
                .collect()
        });
        let both = halves[0].intersection(&halves[1]).count();
        let (first, second) = (halves[0].len() as f64, halves[1].len() as f64);
        let lines = (first + 1.0) * (second + 1.0) / (both as f64 + 1.0) - 1.0;
        lines * f64::from(line_size.bytes())
    }
}

/// The footprints of a group, in its order.
#[derive(Debug)]
pub(super) struct Footprints {
    pub(super) threads: Vec<(ThreadId, Footprint)>,
}

impl Footprints {
    /// The others' than the thread with this place in the group.
    pub(super) fn others(&self, place: usize) -> Vec<&Footprint> {
        let all = self.threads.iter().enumerate();
        all.filter(|(i, _)| *i != place)
            .map(|(_, (_, footprint))| footprint)
            .collect()
    }
}
