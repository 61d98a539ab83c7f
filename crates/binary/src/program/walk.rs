//! One pass over a function's instructions, with what registers hold.

use hitm_model::{AccessKind, Svma, SvmaRange};
use iced_x86::{
    FlowControl, Instruction, InstructionInfo, InstructionInfoFactory, MemorySize, Mnemonic,
    OpAccess, OpKind, Register as Name,
};
use rustc_hash::FxHashMap;

use super::flow::{Flow, number, writes};
use super::places::{self, Surroundings, argument, place};
use super::registers::{ARGUMENTS, State};
use super::semantics::{self, Machine};
use super::value::{Lineage, Origin, Value, Values};
use super::{Access, Call, FunctionCode, Taken, Target};

/// Larger operands are save areas.
const LARGEST: usize = 64;

pub(super) fn walk(
    range: SvmaRange,
    bytes: &[u8],
    around: &dyn Surroundings,
    info: &mut InstructionInfoFactory,
) -> FunctionCode {
    let flow = Flow::read(range, bytes, info);
    let mut first = Walk::new(range, around, flow.complete);
    first.run(&flow, info);
    if flow.heads.is_empty() {
        return first.out;
    }
    // What the first pass brings back to where loops begin holds whatever was there before, so that a second one may
    // begin with it: what a loop only sets anew to the same value is known in it then.
    let mut second = Walk::new(range, around, flow.complete);
    second.brought = Some(first.back);
    second.run(&flow, info);
    second.out
}

impl Machine for Walk<'_> {
    fn number(&self, number: i64) -> Value {
        places::number(number, self.around)
    }

    fn get(&self, register: usize) -> &Values {
        self.state.get(register)
    }

    fn set(&mut self, register: usize, values: Values) {
        self.state.set(register, values);
    }

    fn load(&self, address: &Values, size: usize) -> Values {
        let whole = size == 8;
        if let [value] = address.all()
            && value.origin == Origin::Stack
        {
            let known = self.state.word(value.offset).filter(|_| value.stride == 0);
            return match known {
                Some(values) if whole => values.clone(),
                Some(values) => Value::something(values.lineage()).into(),
                None => Value::something(Lineage::OTHER).into(),
            };
        }
        address.map(|value| self.pointed_to(value, whole))
    }

    fn push(&mut self, at: &Values, values: Values) {
        if let [top] = at.all()
            && top.origin == Origin::Stack
        {
            self.state.store(top.offset, 8, Some(values));
        }
    }
}

struct Walk<'a> {
    range: SvmaRange,
    around: &'a dyn Surroundings,
    state: State,
    /// Whether control comes here from the instruction before.
    live: bool,
    /// What branches forward bring.
    incoming: FxHashMap<u64, State>,
    /// What branches back bring to where loops begin.
    back: FxHashMap<u64, State>,
    /// The same of a pass before this one.
    brought: Option<FxHashMap<u64, State>>,
    /// What jumps through tables bring, wherever they go.
    at_indirect: Option<State>,
    depth: u8,
    out: FunctionCode,
}

impl<'a> Walk<'a> {
    fn new(range: SvmaRange, around: &'a dyn Surroundings, complete: bool) -> Self {
        Self {
            range,
            around,
            state: State::at_entry(),
            live: true,
            incoming: FxHashMap::default(),
            back: FxHashMap::default(),
            brought: None,
            at_indirect: None,
            depth: 0,
            out: FunctionCode {
                range,
                accesses: Vec::new(),
                calls: Vec::new(),
                taken: Vec::new(),
                indirect: 0,
                returns: false,
                complete,
            },
        }
    }

    fn run(&mut self, flow: &Flow, info: &mut InstructionInfoFactory) {
        for (instruction, depth) in flow.code.iter().zip(&flow.depth) {
            self.enter(instruction.ip());
            if let Some(changed) = flow.heads.get(&instruction.ip()) {
                let brought = self.brought.as_ref();
                match brought.and_then(|brought| brought.get(&instruction.ip())) {
                    Some(brought) => self.state.join(brought),
                    None => {
                        self.state.forget(changed.registers, Lineage::OTHER);
                        if changed.frame {
                            self.state.forget_frame();
                        }
                    }
                }
            }
            self.depth = *depth;
            self.step(instruction, info);
        }
        self.out.accesses.shrink_to_fit();
    }
}

impl Walk<'_> {
    fn enter(&mut self, ip: u64) {
        match (self.incoming.remove(&ip), self.live) {
            (Some(other), true) => self.state.join(&other),
            (Some(other), false) => self.state = other,
            (None, true) => {}
            (None, false) => {
                self.state = self.at_indirect.clone().unwrap_or_else(State::unknown);
            }
        }
        self.live = true;
    }

    fn step(&mut self, instruction: &Instruction, info: &mut InstructionInfoFactory) {
        if instruction.mnemonic() == Mnemonic::Nop || instruction.mnemonic() == Mnemonic::Endbr64 {
            return;
        }
        let info = info.info(instruction);
        self.accesses(instruction, info);
        match instruction.flow_control() {
            FlowControl::Next => self.effect(instruction, info),
            FlowControl::Call => {
                if instruction.op0_kind() == OpKind::NearBranch64 {
                    self.call(instruction, self.around.target(instruction.near_branch64()));
                } else {
                    self.call(instruction, None);
                }
            }
            FlowControl::IndirectCall => {
                let target = self.target_of(instruction);
                self.out.indirect += u32::from(target.is_none());
                self.call(instruction, target);
            }
            FlowControl::ConditionalBranch => self.branch(instruction),
            FlowControl::UnconditionalBranch => {
                self.branch(instruction);
                self.live = false;
            }
            FlowControl::IndirectBranch => {
                self.out.returns = true;
                match self.target_of(instruction) {
                    Some(target) => self.record_call(instruction, target),
                    None => {
                        match &mut self.at_indirect {
                            Some(known) => known.join(&self.state),
                            none => *none = Some(self.state.clone()),
                        }
                        self.out.indirect += 1;
                    }
                }
                self.live = false;
            }
            FlowControl::Return => {
                self.out.returns = true;
                self.live = false;
            }
            FlowControl::Exception => self.live = false,
            FlowControl::Interrupt | FlowControl::XbeginXabortXend => {
                self.state
                    .forget(super::registers::VOLATILE, Lineage::OTHER);
            }
        }
    }

    fn branch(&mut self, instruction: &Instruction) {
        if instruction.op0_kind() != OpKind::NearBranch64 {
            return;
        }
        let target = instruction.near_branch64();
        if !self.range.contains(Svma(target)) {
            self.out.returns = true;
            // A tail call, or a part of the function that is elsewhere.
            if let Some(target) = self.around.target(target) {
                self.record_call(instruction, target);
            }
            return;
        }
        let brought = if target > instruction.ip() {
            &mut self.incoming
        } else {
            &mut self.back
        };
        {
            match brought.get_mut(&target) {
                Some(known) => known.join(&self.state),
                None => {
                    brought.insert(target, self.state.clone());
                }
            }
        }
    }

    /// Whom an indirect call or jump reaches, if there is only one.
    fn target_of(&self, instruction: &Instruction) -> Option<Target> {
        let values = match instruction.op0_kind() {
            OpKind::Register => self.state.get(number(instruction.op0_register())?).clone(),
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => self
                .around
                .constant(instruction.ip_rel_memory_address())?
                .into(),
            _ => return None,
        };
        match values.all() {
            [value] => match value.origin {
                Origin::Import(number) => Some(Target::Import(number)),
                Origin::File => self.around.target(value.as_address()?),
                _ => None,
            },
            _ => None,
        }
    }

    fn call(&mut self, instruction: &Instruction, target: Option<Target>) {
        let result = match target {
            Some(Target::Import(import)) => self.around.result_of(import),
            _ => Lineage::OTHER,
        };
        if let Some(target) = target {
            self.record_call(instruction, target);
        }
        self.state.behind_call(result);
    }

    fn record_call(&mut self, instruction: &Instruction, target: Target) {
        let given = ARGUMENTS.map(|register| self.state.get(register).clone());
        let ways = given.iter().map(|values| values.all().len()).max();
        for way in 0..ways.unwrap_or(1) {
            let arguments = std::array::from_fn(|number| {
                let values = given[number].all();
                argument(values[way.min(values.len() - 1)])
            });
            self.out.calls.push(Call {
                site: Svma(instruction.ip()),
                target,
                arguments,
                depth: self.depth,
            });
        }
    }

    fn accesses(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        if instruction.is_stack_instruction() && instruction.op0_kind() != OpKind::Memory {
            return;
        }
        for memory in info.used_memory() {
            let Some(kind) = kind_of(instruction, memory.access()) else {
                continue;
            };
            let size = size_of(memory.memory_size());
            if !(1..=LARGEST).contains(&size) || memory.segment() == Name::GS {
                continue;
            }
            let (access, size) = (memory.access(), size as u32);
            let address = semantics::address(self, instruction, memory);
            if memory.segment() == Name::FS {
                continue;
            }
            for value in address.all() {
                if value.origin == Origin::Stack {
                    if writes(access) && value.stride == 0 {
                        self.store(instruction, value.offset, size);
                    }
                    continue;
                }
                let Some(place) = place(*value) else {
                    continue;
                };
                self.out.accesses.push(Access {
                    instruction: Svma(instruction.ip()),
                    kind,
                    exchanges: semantics::is_exchange(instruction.mnemonic()),
                    size,
                    depth: self.depth,
                    place,
                });
            }
        }
    }

    fn store(&mut self, instruction: &Instruction, offset: i64, size: u32) {
        let whole = instruction.mnemonic() == Mnemonic::Mov && size == 8;
        let values = match instruction.op1_kind() {
            OpKind::Register if whole => {
                number(instruction.op1_register()).map(|register| self.state.get(register).clone())
            }
            OpKind::Immediate32to64 if whole => {
                Some(self.number(instruction.immediate32to64()).into())
            }
            _ => None,
        };
        self.state.store(offset, size, values);
    }

    fn pointed_to(&self, value: Value, whole: bool) -> Value {
        let made = value.lineage.with(value.index);
        match value.origin {
            Origin::File if value.stride == 0 => {
                let at = value.offset.cast_unsigned();
                match self.around.constant(at) {
                    Some(constant) if whole => constant,
                    _ if whole => Value::of(Origin::Pointee(at), 0, Lineage::OTHER),
                    _ => Value::something(Lineage::OTHER),
                }
            }
            Origin::Argument(number) if value.stride == 0 && whole => {
                match i32::try_from(value.offset) {
                    Ok(offset) => Value::of(Origin::Field(number, offset), 0, made),
                    Err(_) => Value::something(made),
                }
            }
            Origin::File | Origin::Pointee(_) | Origin::Stack => {
                Value::something(made.with(Lineage::OTHER))
            }
            _ => Value::something(made),
        }
    }

    fn effect(&mut self, instruction: &Instruction, info: &InstructionInfo) {
        if let Some(values) = semantics::execute(self, instruction, info) {
            self.take(instruction, &values);
        }
    }

    /// Notes where addresses of functions are taken.
    fn take(&mut self, instruction: &Instruction, values: &Values) {
        if !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Mov) {
            return;
        }
        for value in values.all() {
            let Some(address) = value.as_address() else {
                continue;
            };
            let code = self.around.is_code(address);
            if code || self.around.is_table(address) {
                self.out.taken.push(Taken {
                    site: Svma(instruction.ip()),
                    address: Svma(address),
                    code,
                });
            }
        }
    }
}

fn size_of(size: MemorySize) -> usize {
    size.size()
}

fn kind_of(instruction: &Instruction, access: OpAccess) -> Option<AccessKind> {
    crate::decode::access_kind(instruction, access)
}
