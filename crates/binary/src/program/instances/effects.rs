//! Calls: into functions of the file, and what is known of others.

use hitm_model::{AccessKind, Svma};
use iced_x86::{Instruction, InstructionInfoFactory, OpKind};

use super::known::{Alignment, Known};
use super::locks::Lock;
use super::log::{BlockKind, Frame, Made, Pointing};
use super::memory::Space;
use super::run::{After, Run};
use crate::program::Target;
use crate::program::calls::{self, Does};
use crate::program::registers::{ARGUMENTS, RSP};
use crate::program::semantics::{self, Machine as _};
use crate::program::value::{Lineage, Origin, Value, Values};

/// Larger functions are entered only if they lead to the start of a thread.
const LARGEST_BESIDE: usize = 600;
/// So deep such functions call each other.
const DEEPEST_BESIDE: usize = 6;
/// Functions larger than this are not entered at all.
const LARGEST: usize = 8000;
/// What a block's address is a multiple of is told up to this.
const LARGEST_ALIGNMENT: u64 = 1 << 16;
/// Of copies so many bytes are followed.
const LONGEST_COPY: i64 = 1 << 16;
/// Of what is filled with zeros so many words are known.
const MOST_ZEROS: i64 = 64;
/// So much of a variable on the stack may be changed by a function that is given a pointer to it and not looked into:
/// where the variable ends is not known, and most that are filled in this way are small.
const MOST_CHANGED: i64 = 64;

impl Run<'_, '_> {
    /// Whom a call or jump reaches, as far as that is known.
    pub(super) fn targets(&mut self, instruction: &Instruction) -> Vec<Target> {
        if instruction.op0_kind() == OpKind::NearBranch64 {
            return self
                .world
                .ground
                .target(instruction.near_branch64())
                .into_iter()
                .collect();
        }
        let mut factory = self.info.take().unwrap_or_else(InstructionInfoFactory::new);
        let values = semantics::source(self, instruction, factory.info(instruction), 0);
        self.info = Some(factory);
        let mut all = Vec::new();
        for value in values.all() {
            match value.origin {
                Origin::Import(number) if value.offset == 0 => all.push(Target::Import(number)),
                Origin::File if value.stride == 0 => {
                    all.extend(self.world.ground.target(value.offset.cast_unsigned()));
                }
                _ => return Vec::new(),
            }
        }
        all
    }

    /// A call, or a jump that is one.
    pub(super) fn call(&mut self, instruction: &Instruction) -> After {
        let targets = self.targets(instruction);
        if let [Target::Function(function)] = targets.as_slice()
            && instruction.op0_kind() != OpKind::NearBranch64
            && self.is_leading()
            && !self.led_to.contains(function)
        {
            self.led_to.push(*function);
        }
        match targets.as_slice() {
            [] => {
                self.unknown(None);
                After::Next
            }
            [target] => self.one(instruction, *target),
            several => {
                let before = self.state.clone();
                let mut after: Option<super::state::State> = None;
                for target in several {
                    self.state = before.clone();
                    if matches!(self.one(instruction, *target), After::Next) {
                        match &mut after {
                            Some(after) => {
                                after.meet(&self.state, false);
                            }
                            None => after = Some(self.state.clone()),
                        }
                    }
                }
                match after {
                    Some(after) => {
                        self.state = after;
                        After::Next
                    }
                    None => After::Nothing,
                }
            }
        }
    }

    /// Whether all that the thread has run so far are functions that lead to its own one.
    fn is_leading(&self) -> bool {
        let led_to = self.led_to.iter();
        self.errand.run > 0
            && self.frames.len() == self.led_to.len() + 1
            && self
                .frames
                .iter()
                .skip(1)
                .zip(led_to)
                .all(|(frame, led_to)| frame.function == *led_to)
    }

    fn one(&mut self, instruction: &Instruction, target: Target) -> After {
        for register in 0..16 {
            if let [value] = self.state.get(register).all()
                && let Some(name) = Self::register_of(register)
            {
                let pointer = Pointing::Register(name);
                self.log.hint(Svma(instruction.ip()), pointer, *value);
            }
        }
        if let Some(starts) = self.world.graph.starts(target) {
            self.start(instruction, target, starts);
            return After::Next;
        }
        if let Some(joins) = self.world.graph.joins(target) {
            self.state.wait();
            self.ends(joins);
        }
        let tried = match target {
            Target::Import(number) => self.touched_by_import(instruction, number),
            Target::Function(_) => None,
        };
        let after = match (self.world.known(target), target) {
            (Some(known), _) => self.known(instruction, target, known),
            (None, Target::Import(number)) => {
                let result = self.world.ground.result_of(number);
                self.forget_given(false);
                self.state.behind_call(Value::something(result).into());
                After::Next
            }
            (None, Target::Function(function)) => {
                let lock = self.waited_for(target);
                let after = self.enter(instruction, function);
                self.has_waited(lock);
                after
            }
        };
        if let Some(lock) = tried {
            self.state.tried_by_call(lock);
        }
        after
    }

    fn enter(&mut self, instruction: &Instruction, function: Svma) -> After {
        let exact = instruction.op0_kind() != OpKind::NearBranch64
            || function.0 == instruction.near_branch64();
        let Some(body) = self.world.body(function).filter(|_| exact) else {
            self.unknown(Some(function));
            return After::Next;
        };
        if !body.is_followed {
            return After::Nothing;
        }
        let recursive = self.frames.iter().any(|frame| frame.function == function);
        if recursive
            || self.frames.len() >= Self::most_frames()
            || !self.wants(function, body.code.len())
        {
            self.unknown(Some(function));
            return After::Next;
        }
        let before = self.state.clone();
        let top = before.get(RSP).map(|value| value.plus_number(-8));
        if let Some(frame) = self.frames.last_mut() {
            frame.call = Svma(instruction.ip());
            frame.at_call = [
                before.get(RSP).clone(),
                before.get(crate::program::registers::RBP).clone(),
            ];
        }
        self.frames.push(Frame {
            function,
            call: function,
            top: top.clone(),
            at_call: [top.clone(), top.clone()],
            hot: self.hot,
            way: self.way(instruction),
        });
        self.state.set(RSP, top);
        let hot = self.hot;
        let returned = self.function(function);
        self.hot = hot;
        self.frames.pop();
        match returned {
            Some(state) => {
                self.state = state;
                self.state.keep(&before);
                self.forget_below();
                After::Next
            }
            None => After::Nothing,
        }
    }

    /// What is below the stack pointer is nobody's.
    fn forget_below(&mut self) {
        if let [top] = self.state.get(RSP).all()
            && let (Some(space), 0) = (Space::of(*top), top.stride)
        {
            let top = top.offset;
            self.state.memory.forget(space, i64::MIN, top);
        }
    }

    fn wants(&self, function: Svma, size: usize) -> bool {
        let Some(path) = &self.errand.path else {
            return size <= LARGEST;
        };
        if path.contains(&function) {
            return size <= 4 * LARGEST;
        }
        let beside = self
            .frames
            .iter()
            .rev()
            .take_while(|frame| !path.contains(&frame.function))
            .count();
        size <= LARGEST_BESIDE && beside < DEEPEST_BESIDE
    }

    /// The calls that lead to an instruction, as one number.
    pub(super) fn way(&self, instruction: &Instruction) -> u64 {
        let before = self.frames.last().map_or(0, |frame| frame.way);
        let mixed = before.rotate_left(5) ^ instruction.ip();
        mixed.wrapping_mul(0x517c_c1b7_2722_0a95)
    }

    /// A call of something that is not looked into.
    fn unknown(&mut self, function: Option<Svma>) {
        if let Some(function) = function
            && self.world.waits(function)
        {
            self.state.wait();
        }
        self.forget_given(true);
        self.state.held.clear();
        self.state
            .behind_call(Value::something(Lineage::OTHER).into());
    }

    /// Forgets what is behind the pointers that a function is given; if it is one of the file, also what is behind those.
    fn forget_given(&mut self, deep: bool) {
        let mut given: Vec<(Space, i64)> = Vec::new();
        for register in ARGUMENTS {
            let pointers = self.state.get(register).all().iter();
            given.extend(
                pointers
                    .filter(|value| matches!(value.origin, Origin::Block(_)))
                    .filter_map(|value| Some((Space::of(*value)?, value.offset))),
            );
        }
        let mut seen: Vec<Space> = Vec::new();
        while let Some((space, from)) = given.pop() {
            if seen.len() > 64 {
                break;
            }
            if deep && !seen.contains(&space) && !self.is_stack(space) {
                let inner = self.state.memory.pointed_to(space);
                given.extend(
                    inner
                        .into_iter()
                        .filter(|space| !self.is_stack(*space))
                        .map(|space| (space, i64::MIN)),
                );
            }
            seen.push(space);
            self.forget_from(space, from);
        }
    }

    fn is_stack(&self, space: Space) -> bool {
        match space {
            Space::File => false,
            Space::Block(number) => !matches!(
                self.log.blocks[number as usize].kind,
                BlockKind::Heap { .. }
            ),
        }
    }

    /// Forgets a heap block, or of a frame as much as a function may change that is given this address.
    fn forget_from(&mut self, space: Space, from: i64) {
        if !self.is_stack(space) {
            self.state.memory.forget(space, i64::MIN, i64::MAX);
            return;
        }
        let tops = self.frames.iter().flat_map(|frame| frame.top.all());
        let end = tops
            .filter(|top| Space::of(**top) == Some(space) && top.offset > from)
            .map(|top| top.offset)
            .chain([from.saturating_add(MOST_CHANGED)])
            .min()
            .unwrap_or(from);
        self.state.memory.forget(space, from, end);
    }

    fn number_in(&self, argument: usize) -> Option<i64> {
        match self.state.get(ARGUMENTS[argument]).all() {
            [value] => value.as_number(),
            _ => None,
        }
    }

    fn known(&mut self, instruction: &Instruction, by: Target, known: Known) -> After {
        let mut result: Values = Value::something(Lineage::OTHER).into();
        match known {
            Known::Ends => return After::Nothing,
            Known::Reads => {}
            Known::Allocates { size, align, times } => {
                let times = times.map_or(Some(1), |times| self.number_in(times));
                let size = self
                    .number_in(size)
                    .zip(times)
                    .and_then(|(a, b)| a.checked_mul(b));
                let promised = self.promised(by, align);
                result = self.allocate(instruction, by, size, promised);
            }
            Known::AllocatesInto => {
                let promised = self.promised(by, Alignment::Argument(1));
                let block = self.allocate(instruction, by, self.number_in(2), promised);
                let into = self.state.get(ARGUMENTS[0]).clone();
                self.push(&into, block);
                result = Value::number(0).into();
            }
            Known::Resizes { size, align } => {
                let size = self.number_in(size);
                let old = self.state.get(ARGUMENTS[0]).clone();
                let promised = self.promised(by, align);
                result = self.allocate(instruction, by, size, promised);
                if let ([old], [new]) = (old.all(), result.all())
                    && let (Some(from), Some(to)) = (Space::of(*old), Space::of(*new))
                    && from != to
                {
                    self.state
                        .memory
                        .copy((from, old.offset), (to, 0), LONGEST_COPY);
                }
            }
            Known::Copies => {
                result = self.state.get(ARGUMENTS[0]).clone();
                let from = self.state.get(ARGUMENTS[1]).clone();
                self.copy(&from, &result, self.number_in(2));
            }
            Known::Fills => {
                result = self.state.get(ARGUMENTS[0]).clone();
                let zero = self.number_in(1) == Some(0);
                self.fill(&result, self.number_in(2), zero);
            }
            Known::Writes { argument, bytes } => {
                let to = self.state.get(ARGUMENTS[argument]).clone();
                self.fill(&to, Some(bytes), false);
            }
        }
        self.state.behind_call(result);
        After::Next
    }

    /// What the address of a new block is a multiple of, by the allocator's contract; `None` where that is not known.
    ///
    /// An allocator of the program's own may give more than the library's function of its name; one that is told the
    /// alignment gives that.
    fn promised(&self, by: Target, align: Alignment) -> Option<u64> {
        match align {
            Alignment::Argument(argument) => self
                .number_in(argument)
                .and_then(|align| u64::try_from(align).ok())
                .filter(|align| align.is_power_of_two()),
            Alignment::Fixed(align) => matches!(by, Target::Import(_)).then_some(align),
        }
    }

    fn allocate(
        &mut self,
        instruction: &Instruction,
        by: Target,
        size: Option<i64>,
        promised: Option<u64>,
    ) -> Values {
        let size = size.and_then(|size| u64::try_from(size).ok());
        let run = self.errand.run;
        let (repeated, site) = (self.hot, Svma(instruction.ip()));
        // Allocators align to 16 at least whatever is asked for.
        let least = if size.is_some_and(|size| size < 16) {
            8
        } else {
            16
        };
        let align = promised.unwrap_or(least).clamp(least, LARGEST_ALIGNMENT);
        let key = (self.way(instruction), u64::from(run) << 32);
        let number = self.log.block(key, || Made {
            kind: BlockKind::Heap { site, size },
            align,
            promised: promised.map(|align| (by, align)),
            hints: Vec::new(),
            repeated,
            run,
            alone: Vec::new(),
        });
        let made = &mut self.log.blocks[number as usize];
        if let BlockKind::Heap { size: known, .. } = &mut made.kind
            && *known != size
        {
            *known = None;
        }
        made.align = made.align.min(align);
        if made.promised != promised.map(|align| (by, align)) {
            made.promised = None;
        }
        self.state.memory.begin(Space::Block(number));
        Value::of(Origin::Block(number), 0, Lineage::NONE).into()
    }

    pub(super) fn new_stack(&mut self, site: u64, align: u64) -> u32 {
        let run = self.errand.run;
        let way = self.frames.last().map_or(0, |frame| frame.way);
        let repeated = self.frames.last().is_some_and(|frame| frame.hot);
        self.log
            .block((way ^ site, u64::from(run) << 32 | 1), || Made {
                kind: if align > 16 {
                    BlockKind::Aligned
                } else {
                    BlockKind::Stack
                },
                align,
                promised: None,
                hints: Vec::new(),
                repeated,
                run,
                alone: Vec::new(),
            })
    }

    fn copy(&mut self, from: &Values, to: &Values, size: Option<i64>) {
        let [to] = to.all() else {
            return;
        };
        let Some(into) = Space::of(*to) else {
            return;
        };
        let size = size.filter(|size| (0..=LONGEST_COPY).contains(size));
        match (from.all(), size) {
            ([from], Some(size)) if to.stride == 0 && from.stride == 0 => match Space::of(*from) {
                Some(space) => {
                    let memory = &mut self.state.memory;
                    memory.copy((space, from.offset), (into, to.offset), size);
                }
                None => self
                    .state
                    .memory
                    .forget(into, to.offset, to.offset.saturating_add(size)),
            },
            (_, Some(size)) if to.stride == 0 => {
                self.state
                    .memory
                    .forget(into, to.offset, to.offset.saturating_add(size));
            }
            _ => self.forget_from(into, to.offset),
        }
    }

    pub(super) fn fill(&mut self, to: &Values, size: Option<i64>, zero: bool) {
        for value in to.all() {
            let Some(space) = Space::of(*value).filter(|_| value.stride == 0) else {
                continue;
            };
            match size.filter(|size| (0..=LONGEST_COPY).contains(size)) {
                Some(size) => {
                    let memory = &mut self.state.memory;
                    memory.forget(space, value.offset.saturating_sub(7), value.offset);
                    memory.forget(space, value.offset, value.offset.saturating_add(size));
                    for word in 0..(size / 8).min(MOST_ZEROS) {
                        if zero && to.all().len() == 1 {
                            let at = value.plus_number(8 * word);
                            memory.store(space, at, 8, Some(Value::number(0).into()), true);
                        }
                    }
                }
                None => self.forget_from(space, value.offset),
            }
        }
    }

    /// Instructions that copy or fill a stretch of memory; whether it was one.
    pub(super) fn repeated(&mut self, instruction: &Instruction) -> bool {
        use iced_x86::Mnemonic::{Movsb, Movsd, Movsq, Stosb, Stosd, Stosq};
        let mnemonic = instruction.mnemonic();
        let bytes = match mnemonic {
            Movsb | Stosb => 1,
            Movsd | Stosd if instruction.is_string_instruction() => 4,
            Movsq | Stosq => 8,
            _ => return false,
        };
        let (count, source, to) = (1, 6, 7);
        let times = match (instruction.has_rep_prefix(), self.state.get(count).all()) {
            (false, _) => Some(1),
            (true, [value]) => value.as_number(),
            (true, _) => None,
        };
        let size = times
            .and_then(|times| times.checked_mul(bytes))
            .filter(|size| (0..=LONGEST_COPY).contains(size));
        let copies = matches!(mnemonic, Movsb | Movsd | Movsq);
        let into = self.state.get(to).clone();
        if copies {
            let from = self.state.get(source).clone();
            self.copy(&from, &into, size);
        } else {
            let zero = match self.state.get(0).all() {
                [value] => value.as_number() == Some(0),
                _ => false,
            };
            self.fill(&into, size, zero);
        }
        let moved = |values: &Values| match size {
            Some(size) => values.map(|value| value.plus_number(size)),
            None => Value::something(values.lineage().with(Lineage::OTHER)).into(),
        };
        let new = moved(&into);
        self.state.set(to, new);
        if copies {
            let new = moved(self.state.get(source));
            self.state.set(source, new);
        }
        if instruction.has_rep_prefix() {
            self.state.set(count, Value::number(0).into());
        }
        true
    }

    /// Locks that are taken by a call, and what else calls do to memory. The lock that it tries to take is returned.
    fn touched_by_import(&mut self, instruction: &Instruction, number: u32) -> Option<Lock> {
        let mut tried = None;
        let all = self
            .world
            .ground
            .import(number)
            .map_or(&[][..], calls::does);
        for &(argument, does) in all {
            let size = |of: usize| match self.number_in(of) {
                Some(bytes) => u32::try_from(bytes).unwrap_or(1),
                None => 1,
            };
            let (kind, size, lock) = match does {
                Does::Locks(size, _) => (AccessKind::Atomic, size, true),
                Does::Changes(size) => (AccessKind::Atomic, size, false),
                Does::Fills(of) => (AccessKind::Write, size(of), false),
                Does::Copies(of) => (AccessKind::Read, size(of), false),
            };
            if size > 0 {
                let address = self.state.get(ARGUMENTS[argument]).clone();
                self.touch(instruction, &address, size, kind, lock);
                if let Does::Locks(_, turn) = does {
                    tried = self.turn(&address, turn);
                }
            }
        }
        tried
    }
}
