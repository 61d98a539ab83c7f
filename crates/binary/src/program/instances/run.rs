//! Runs functions with what is known of registers and memory, from block to block and from call to call.
//!
//! A block is run once what leads to it is known. The blocks of a loop are run in rounds: what comes back to its start is
//! joined with what was there, and what moved on by then moves on in each round. What is noted counts of the last round
//! only.

use std::rc::Rc;

use hitm_model::{Register, Svma};
use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpKind,
    Register as Name,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::body::Body;
use super::log::{Frame, Log, Pointing};
use super::memory::Space;
use super::state::{self, State};
use super::world::World;
use crate::program::flow::{number, writes};
use crate::program::registers::{RBP, RSP};
use crate::program::semantics::{self, Machine};
use crate::program::value::{Lineage, Origin, Value, Values};

/// Larger operands are save areas.
const LARGEST: usize = 64;
/// After so many rounds of a loop nothing is known in it.
const MOST_ROUNDS: usize = 6;
/// So deep calls are followed.
const MOST_FRAMES: usize = 40;

/// Who runs, and how far.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    /// 0 for what starts threads, else the number of the instance.
    pub(super) run: u32,
    /// Whether several threads do the same.
    pub(super) many: bool,
    /// Of what starts threads: functions that lead there.
    pub(super) path: Option<Rc<FxHashSet<Svma>>>,
    /// Whether it is the main thread, or what it calls.
    pub(super) noted: bool,
    /// Of a thread: the way to its start.
    pub(super) way: u64,
    pub(super) steps: usize,
}

pub(super) struct Run<'a, 'w> {
    pub(super) world: &'a mut World<'w>,
    pub(super) log: &'a mut Log,
    pub(super) errand: Errand,
    pub(super) state: State,
    pub(super) frames: Vec<Frame>,
    /// Functions that were run, by their start.
    pub(super) visited: FxHashSet<Svma>,
    /// Functions that the first one leads to through a pointer.
    pub(super) led_to: Vec<Svma>,
    pub(super) given_up: bool,
    /// Whether the instruction is in a loop of its function or of a caller.
    pub(super) hot: bool,
    pub(super) info: Option<InstructionInfoFactory>,
}

/// Where control goes from a block.
#[derive(Default)]
struct Outcome {
    next: Vec<(u32, State)>,
    returned: Option<State>,
}

/// What comes after an instruction.
pub(super) enum After {
    Next,
    /// Control does not come back.
    Nothing,
}

impl Run<'_, '_> {
    /// Runs a function from the state at its start to where it returns, if it does.
    pub(super) fn function(&mut self, function: Svma) -> Option<State> {
        let body = self.world.body(function)?;
        self.visited.insert(function);
        let mut entering: Vec<Option<State>> = vec![None; body.blocks.len()];
        *entering.first_mut()? = Some(self.state.clone());
        let mut returned: Option<State> = None;
        for part in 0..body.parts.len() {
            let outcome = if body.parts[part].cyclic {
                self.rounds(&body, part as u32, &mut entering)
            } else {
                let block = body.parts[part].blocks[0];
                match entering[block as usize].take() {
                    Some(state) => self.block(&body, block, state),
                    None => continue,
                }
            };
            if self.given_up {
                return None;
            }
            for (to, state) in outcome.next {
                join(&mut entering[to as usize], state);
            }
            if let Some(state) = outcome.returned {
                join(&mut returned, state);
            }
        }
        returned
    }

    /// Runs the blocks of a loop until what comes back to the starts of it and of the loops in it is known there.
    fn rounds(&mut self, body: &Body, part: u32, entering: &mut [Option<State>]) -> Outcome {
        let blocks = &body.parts[part as usize].blocks;
        let mut entered: FxHashMap<u32, State> = blocks
            .iter()
            .filter_map(|&block| Some((block, entering[block as usize].take()?)))
            .collect();
        if entered.is_empty() {
            return Outcome::default();
        }
        // Where something comes back to: the starts of this loop and of those in it.
        let heads: FxHashSet<u32> = blocks
            .iter()
            .flat_map(|&block| {
                let from = &body.blocks[block as usize];
                from.next.iter().copied().filter(move |&to| {
                    let target = &body.blocks[to as usize];
                    target.part == part && target.rank <= from.rank
                })
            })
            .collect();
        // What came back to a block, in all rounds so far.
        let mut back: FxHashMap<u32, State> = FxHashMap::default();
        for round in 0.. {
            let mark = self.log.mark();
            let mut inside = entered.clone();
            let mut begun: FxHashMap<u32, State> = FxHashMap::default();
            let mut outcome = Outcome::default();
            let mut changed = false;
            for &block in blocks {
                let state = match (inside.remove(&block), back.get(&block)) {
                    (None, None) => continue,
                    (Some(state), None) => state,
                    (None, Some(back)) => back.clone(),
                    (Some(mut state), Some(back)) => {
                        state.meet(back, true);
                        state
                    }
                };
                if heads.contains(&block) {
                    begun.insert(block, state.clone());
                }
                let one = self.block(body, block, state);
                if self.given_up {
                    return outcome;
                }
                if let Some(state) = one.returned {
                    join(&mut outcome.returned, state);
                }
                for (to, state) in one.next {
                    let target = &body.blocks[to as usize];
                    if target.part != part {
                        outcome.next.push((to, state));
                    } else if target.rank > body.blocks[block as usize].rank {
                        match inside.get_mut(&to) {
                            Some(known) => {
                                known.meet(&state, false);
                            }
                            None => {
                                inside.insert(to, state);
                            }
                        }
                    } else if begun
                        .get_mut(&to)
                        .is_none_or(|begun| begun.meet(&state, true))
                    {
                        match back.get_mut(&to) {
                            Some(known) => changed |= known.meet(&state, true),
                            None => {
                                back.insert(to, state);
                                changed = true;
                            }
                        }
                    }
                }
            }
            if !changed || round >= MOST_ROUNDS {
                return outcome;
            }
            if round + 1 == MOST_ROUNDS {
                entered.values_mut().for_each(State::give_up);
                back.values_mut().for_each(State::give_up);
            }
            self.log.back_to(mark);
        }
        Outcome::default()
    }

    fn block(&mut self, body: &Body, number: u32, state: State) -> Outcome {
        self.state = state;
        let block = &body.blocks[number as usize];
        let outer = self.frames.last().is_some_and(|frame| frame.hot);
        let mut outcome = Outcome::default();
        for at in block.from..block.to {
            let instruction = &body.code[at];
            self.errand.steps = match self.errand.steps.checked_sub(1) {
                Some(steps) => steps,
                None => {
                    self.given_up = true;
                    return outcome;
                }
            };
            self.hot = outer || body.depth[at] > 0;
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::Interrupt | FlowControl::XbeginXabortXend => {
                    self.step(instruction);
                }
                FlowControl::Call | FlowControl::IndirectCall => {
                    self.look(instruction);
                    if matches!(self.call(instruction), After::Nothing) || self.given_up {
                        return outcome;
                    }
                }
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    self.jump(body, block.to, number, instruction, &mut outcome);
                    return outcome;
                }
                FlowControl::IndirectBranch => {
                    self.look(instruction);
                    if body.blocks[number as usize].next.is_empty()
                        || !self.targets(instruction).is_empty()
                    {
                        self.tail(instruction, &mut outcome);
                    } else {
                        let state = &self.state;
                        let next = block.next.iter().map(|&to| (to, state.clone()));
                        outcome.next.extend(next);
                    }
                    return outcome;
                }
                FlowControl::Return => {
                    outcome.returned = Some(self.state.clone());
                    return outcome;
                }
                FlowControl::Exception => return outcome,
            }
        }
        // The next block begins here because something jumps to it.
        for &to in &block.next {
            outcome.next.push((to, self.state.clone()));
        }
        outcome
    }

    fn jump(
        &mut self,
        body: &Body,
        behind: usize,
        number: u32,
        instruction: &Instruction,
        outcome: &mut Outcome,
    ) {
        let conditional = instruction.flow_control() == FlowControl::ConditionalBranch;
        let holds = match conditional {
            true => self.state.holds(instruction.condition_code()),
            false => Some(true),
        };
        let target = instruction.near_branch_target();
        let inside = body.range.contains(Svma(target));
        let tried = match conditional {
            true => self.state.tried.take(),
            false => None,
        };
        for &to in &body.blocks[number as usize].next {
            let first = body.blocks[to as usize].from;
            let falls = conditional && first == behind;
            let jumps = body.code[first].ip() == target;
            let taken = match holds {
                Some(true) => jumps,
                Some(false) => falls,
                None => true,
            };
            if taken {
                let mut state = self.state.clone();
                if let Some(tried) = tried {
                    state.has_tried(tried, instruction, jumps && !falls, falls && !jumps);
                }
                outcome.next.push((to, state));
            }
        }
        if !inside && holds != Some(false) && instruction.op0_kind() == OpKind::NearBranch64 {
            let before = self.state.clone();
            self.tail(instruction, outcome);
            self.state = before;
        }
    }

    /// A jump to another function, which returns for this one.
    fn tail(&mut self, instruction: &Instruction, outcome: &mut Outcome) {
        if matches!(self.call(instruction), After::Next) && !self.given_up {
            join(&mut outcome.returned, self.state.clone());
        }
    }

    fn step(&mut self, instruction: &Instruction) {
        if matches!(
            instruction.mnemonic(),
            Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Prefetcht0 | Mnemonic::Prefetchw
        ) {
            return;
        }
        let mut factory = self.info.take().unwrap_or_else(InstructionInfoFactory::new);
        let info = factory.info(instruction);
        let tried = self.tries(instruction, info);
        self.accesses(instruction, info);
        self.effect(instruction, info);
        self.behind(tried, instruction, info);
        self.info = Some(factory);
    }

    /// Notes what a call or jump reads from memory.
    fn look(&mut self, instruction: &Instruction) {
        let mut factory = self.info.take().unwrap_or_else(InstructionInfoFactory::new);
        if instruction.op0_kind() == OpKind::Memory {
            self.accesses(instruction, factory.info(instruction));
        }
        self.info = Some(factory);
    }

    fn effect(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        if matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) {
            let left = semantics::source(self, instruction, info, 0);
            let right = semantics::source(self, instruction, info, 1);
            self.state.compare(instruction, &left, &right);
            return;
        }
        let chosen = self.chosen(instruction, info);
        if let Some((register, values)) = chosen {
            self.state.set(register, values);
        } else if !self.realigned(instruction)
            && !self.repeated(instruction)
            && !self.vectors(instruction, info)
        {
            semantics::execute(self, instruction, info);
            self.number_drawn(instruction);
            for written in state::written_vectors(info) {
                let unknown = || Values::from(Value::something(Lineage::OTHER));
                self.state.set_vector(written, [unknown(), unknown()]);
            }
        }
        if state::sets_flags(instruction) {
            self.state.forget_comparison();
        }
    }

    /// A thread that counts up, once, what all count up draws a number of its own.
    fn number_drawn(&mut self, instruction: &Instruction) {
        if instruction.mnemonic() == Mnemonic::Xadd
            && instruction.has_lock_prefix()
            && self.errand.many
            && !self.hot
            && let Some(register) = number(instruction.op1_register())
        {
            let drawn = Value::something(Lineage::THREAD);
            self.state.set(register, drawn.into());
        }
    }

    /// A conditional move whose condition is known.
    fn chosen(&self, instruction: &Instruction, info: &InstructionInfo) -> Option<(usize, Values)> {
        let mnemonic = instruction.mnemonic();
        if !crate::decode::is_conditional_move(mnemonic) || instruction.op0_register().size() < 8 {
            return None;
        }
        let holds = self.state.holds(instruction.condition_code())?;
        let register = number(instruction.op0_register())?;
        let values = semantics::source(self, instruction, info, u32::from(holds));
        Some((register, values))
    }

    /// A stack pointer that is rounded down points to a stack of its own: from where is not known.
    fn realigned(&mut self, instruction: &Instruction) -> bool {
        if instruction.mnemonic() != Mnemonic::And
            || instruction.op0_kind() != OpKind::Register
            || instruction.op0_register() != Name::RSP
        {
            return false;
        }
        let Ok(mask) = instruction.try_immediate(1) else {
            return false;
        };
        let align = mask.wrapping_neg();
        if !align.is_power_of_two() {
            return false;
        }
        if align <= 16 {
            let aligned = self.state.get(RSP).map(|value| match value.origin {
                // At the start of a function it is 8 more than a multiple of 16.
                Origin::Block(_) => {
                    let offset = value.offset.wrapping_sub(8) & mask.cast_signed();
                    Value {
                        offset: offset.wrapping_add(8),
                        ..value
                    }
                }
                _ => value,
            });
            self.state.set(RSP, aligned);
            return true;
        }
        let block = self.new_stack(instruction.ip(), align);
        self.state.memory.begin(Space::Block(block));
        let value = Value::of(Origin::Block(block), 0, Lineage::NONE);
        self.state.set(RSP, value.into());
        true
    }

    pub(super) fn register_of(number: usize) -> Option<Register> {
        const DWARF: [u16; 8] = [0, 2, 1, 3, 7, 6, 4, 5];
        Register::from_dwarf(DWARF.get(number).copied().unwrap_or(number as u16))
    }

    fn accesses(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        if instruction.is_stack_instruction() && instruction.op0_kind() != OpKind::Memory {
            return;
        }
        for memory in info.used_memory() {
            let Some(kind) = crate::decode::access_kind(instruction, memory.access()) else {
                continue;
            };
            let size = memory.memory_size().size();
            if !(1..=LARGEST).contains(&size) || matches!(memory.segment(), Name::GS | Name::FS) {
                continue;
            }
            let address = semantics::address(self, instruction, memory);
            if let Some(base) = number(memory.base())
                && let [value] = self.state.get(base).all()
                && let Some(register) = Self::register_of(base)
            {
                let pointer = Pointing::Register(register);
                self.log.hint(Svma(instruction.ip()), pointer, *value);
            }
            self.touch(instruction, &address, size as u32, kind, false);
            if writes(memory.access()) {
                self.store(instruction, &address, size);
            }
        }
    }
}

fn join(known: &mut Option<State>, other: State) {
    match known {
        Some(known) => {
            known.meet(&other, false);
        }
        None => *known = Some(other),
    }
}

impl Machine for Run<'_, '_> {
    fn number(&self, number: i64) -> Value {
        self.world.number(number)
    }

    fn get(&self, register: usize) -> &Values {
        self.state.get(register)
    }

    fn set(&mut self, register: usize, values: Values) {
        self.state.set(register, values);
    }

    fn load(&self, address: &Values, size: usize) -> Values {
        let mut all: Option<Values> = None;
        for value in address.all() {
            let one = self.load_one(*value, size);
            all = Some(match all {
                Some(all) => all.join(&one),
                None => one,
            });
        }
        all.unwrap_or_else(|| Value::something(Lineage::OTHER).into())
    }

    fn push(&mut self, at: &Values, values: Values) {
        if let [top] = at.all()
            && let Some(space) = Space::of(*top)
        {
            self.state.memory.store(space, *top, 8, Some(values), true);
        }
    }
}

impl Run<'_, '_> {
    fn load_one(&self, at: Value, size: usize) -> Values {
        let made = at.lineage.with(at.index);
        let Some(space) = Space::of(at) else {
            return Value::something(made).into();
        };
        let own = match space {
            Space::File => false,
            Space::Block(number) => self.log.blocks[number as usize].run == self.errand.run,
        };
        // What was there before others could reach it, or is the thread's alone, nobody else changes.
        let shared = match self.errand.run {
            0 => self.state.is_beside(),
            _ => !own || self.state.is_beside(),
        };
        if shared && self.world.is_changed(space, at, &self.errand) {
            return Value::something(made.with(Lineage::OTHER)).into();
        }
        if let Some(values) = self.state.memory.load(space, at, size) {
            let number = |value: &Value| value.as_number().is_some();
            let distrust = shared && !self.world.trusts_numbers;
            if distrust && values.all().iter().any(number) {
                return Value::something(values.lineage().with(Lineage::OTHER)).into();
            }
            return values;
        }
        match space {
            Space::File if at.stride == 0 && size == 8 => self
                .world
                .constant(at.offset.cast_unsigned())
                .unwrap_or_else(|| Value::something(Lineage::OTHER))
                .into(),
            Space::Block(number)
                if self.errand.many && self.log.blocks[number as usize].repeated =>
            {
                Value::something(Lineage::THREAD).into()
            }
            _ => Value::something(made.with(Lineage::OTHER)).into(),
        }
    }

    pub(super) fn stack_pointers(&self) -> [Values; 2] {
        [self.state.get(RSP).clone(), self.state.get(RBP).clone()]
    }

    pub(super) const fn most_frames() -> usize {
        MOST_FRAMES
    }
}
