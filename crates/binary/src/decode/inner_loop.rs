//! The innermost loop around an instruction: what it does to memory, and whether it may only be waiting.
//!
//! A loop is taken to be the stretch of code from a branch's target to the branch that goes back there. The smallest
//! such stretch that holds the instruction is its innermost loop. Compilers lay loops out like that; a loop whose body
//! is scattered is seen in part, and one that is closed by an indirect jump is not seen.

use hitm_model::{AccessKind, Register, Svma, SvmaRange};
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register as Name,
};

use super::Code;
use super::execute::{Conventions, State, full_width};
use super::loops::{Branch, BranchKind};
use super::operands::operands_of;
use super::scan::decoder;

/// Longer stretches are not looked at: nothing in them is about one sample any more.
const LONGEST: usize = 4096;

/// The innermost loop around an instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InnerLoop {
    /// The code, from the branch's target to the end of the branch.
    pub range: SvmaRange,
    /// How many instructions.
    pub instructions: u32,
    /// Whether it calls something: a function, or the kernel.
    pub calls: bool,
    /// Whether it has a `pause`, which is for loops that wait.
    pub pauses: bool,
    /// Its accesses to memory, but for those of calls to the stack.
    pub accesses: Vec<LoopAccess>,
    /// Registers that each round changes by a constant, with the sum: induction variables.
    pub steps: Vec<(Register, i64)>,
}

/// An access of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoopAccess {
    /// The instruction.
    pub instruction: Svma,
    /// What it does.
    pub kind: AccessKind,
    /// For a plain store: the load of this round whose value it passes on unchanged.
    pub passes_on: Option<Svma>,
    /// For an atomic operation: whether what it stores does not depend on what was there, as when a lock is tried.
    pub tries: bool,
}

impl InnerLoop {
    /// Whether each round may do nothing but look at what others write, which `is_watched` tells of its reads: all that
    /// it stores is what it has just read there, or a lock that it tries again and again.
    #[must_use]
    pub fn may_only_wait(&self, is_watched: impl Fn(Svma) -> bool) -> bool {
        let watches = |access: &&LoopAccess| {
            (access.kind == AccessKind::Read || access.tries) && is_watched(access.instruction)
        };
        let idle = |access: &LoopAccess| {
            access.kind == AccessKind::Read
                || access.tries && is_watched(access.instruction)
                || access.passes_on.is_some_and(&is_watched)
        };
        (self.pauses || !self.calls)
            && self.accesses.iter().any(|access| watches(&access))
            && self.accesses.iter().all(idle)
    }

    /// What each round adds to a register, if that is a constant.
    #[must_use]
    pub fn step_of(&self, register: Register) -> Option<i64> {
        let known = self.steps.iter().find(|(it, _)| *it == register);
        known.map(|(_, step)| *step)
    }
}

/// The smallest stretch between a branch back and its target that holds `ip`.
pub(super) fn inner_loop(code: Code<'_>, branches: &[Branch], ip: Svma) -> Option<InnerLoop> {
    let back = branches
        .iter()
        .filter(|branch| branch.kind != BranchKind::Other)
        .filter(|branch| branch.to <= ip.0 && ip.0 <= branch.from)
        .filter(|branch| code.range().contains(Svma(branch.to)))
        .min_by_key(|branch| branch.from - branch.to)?;
    let start = code.from(Svma(back.to))?;
    let mut instructions = Vec::new();
    for instruction in &mut decoder(start.bytes, start.start) {
        if instruction.is_invalid() || instructions.len() > LONGEST {
            return None;
        }
        instructions.push(instruction);
        if instruction.ip() >= back.from {
            break;
        }
    }
    let end = instructions.last()?.next_ip();
    Some(InnerLoop {
        range: SvmaRange::new(Svma(back.to), Svma(end)),
        instructions: u32::try_from(instructions.len()).ok()?,
        calls: instructions.iter().any(is_call),
        pauses: instructions
            .iter()
            .any(|it| it.mnemonic() == Mnemonic::Pause),
        accesses: accesses(&instructions),
        steps: steps(&instructions),
    })
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt
    ) || instruction.mnemonic() == Mnemonic::Syscall
}

fn accesses(instructions: &[Instruction]) -> Vec<LoopAccess> {
    let mut factory = InstructionInfoFactory::new();
    let state = State::new(Conventions::UNKNOWN);
    let mut operands = Vec::new();
    let mut accesses = Vec::new();
    let mut values = Values::default();
    // Twice: what one round loads may be stored by the next one.
    for round in 0..2 {
        for instruction in instructions {
            let info = factory.info(instruction);
            operands_of(instruction, info, &state, &mut operands);
            for operand in operands.drain(..) {
                if round == 0 || operand.implicit_stack && is_call(instruction) {
                    continue;
                }
                accesses.push(LoopAccess {
                    instruction: Svma(instruction.ip()),
                    kind: operand.kind,
                    passes_on: values.stored_by(instruction),
                    tries: operand.kind == AccessKind::Atomic
                        && values.is_tried_by(instruction, instructions),
                });
            }
            values.behind(instruction, &mut factory);
        }
    }
    accesses
}

/// Which registers hold a value just loaded, and by which instruction.
#[derive(Debug, Default)]
struct Values([Option<Svma>; 16]);

impl Values {
    fn of(&self, name: Name) -> Option<Svma> {
        full_width(name.full_register()).and_then(|register| self.0[register.index()])
    }

    /// The load whose value a plain store stores.
    fn stored_by(&self, instruction: &Instruction) -> Option<Svma> {
        let is_store = instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_kind() == OpKind::Memory
            && instruction.op1_kind() == OpKind::Register;
        is_store
            .then(|| self.of(instruction.op1_register()))
            .flatten()
    }

    /// Whether an atomic operation stores something that has nothing to do with what it finds: a constant, or a
    /// register that the loop does not change.
    fn is_tried_by(&self, instruction: &Instruction, all: &[Instruction]) -> bool {
        match instruction.mnemonic() {
            Mnemonic::Bts => true,
            Mnemonic::Xchg | Mnemonic::Cmpxchg => {
                let new = (0..instruction.op_count())
                    .find(|&operand| instruction.op_kind(operand) == OpKind::Register)
                    .map(|operand| instruction.op_register(operand).full_register());
                new.is_some_and(|new| is_constant_in(new, instruction, all))
            }
            _ => false,
        }
    }

    fn behind(&mut self, instruction: &Instruction, factory: &mut InstructionInfoFactory) {
        for register in written(instruction, factory) {
            self.0[register.index()] = None;
        }
        let is_load = instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_kind() == OpKind::Register
            && instruction.op1_kind() == OpKind::Memory;
        if is_load && let Some(register) = full_width(instruction.op0_register().full_register()) {
            self.0[register.index()] = Some(Svma(instruction.ip()));
        }
    }
}

/// Whether all that writes `name` in the loop, but for `except`, sets it to the same in each round: a constant, or a
/// register that the loop leaves alone.
fn is_constant_in(name: Name, except: &Instruction, all: &[Instruction]) -> bool {
    let mut sets = setters(name, all).filter(|it| it.ip() != except.ip());
    let to_constant = |instruction: &Instruction| match instruction.mnemonic() {
        Mnemonic::Mov if instruction.op1_kind() == OpKind::Register => {
            setters(instruction.op1_register(), all).next().is_none()
        }
        Mnemonic::Mov => is_immediate(instruction.op1_kind()),
        Mnemonic::Xor | Mnemonic::Sub => {
            instruction.op1_kind() == OpKind::Register
                && instruction.op0_register() == instruction.op1_register()
        }
        _ => false,
    };
    match sets.next() {
        Some(first) => to_constant(first) && sets.all(to_constant),
        // An exchange leaves the old value in the register: it must be set anew. A comparison leaves it alone.
        None => except.mnemonic() == Mnemonic::Cmpxchg,
    }
}

/// The instructions that write a register.
fn setters(name: Name, all: &[Instruction]) -> impl Iterator<Item = &Instruction> {
    let register = full_width(name.full_register());
    let mut factory = InstructionInfoFactory::new();
    all.iter().filter(move |instruction| {
        written(instruction, &mut factory)
            .iter()
            .any(|written| Some(*written) == register)
    })
}

/// Registers that change by a constant only, and by how much in all.
fn steps(instructions: &[Instruction]) -> Vec<(Register, i64)> {
    let mut factory = InstructionInfoFactory::new();
    let mut sums: [Option<i64>; 16] = [Some(0); 16];
    for instruction in instructions {
        let moved = moved_by(instruction);
        for register in written(instruction, &mut factory) {
            let sum = &mut sums[register.index()];
            *sum = match moved {
                Some((moved, by)) if moved == register => sum.map(|sum| sum.wrapping_add(by)),
                _ => None,
            };
        }
    }
    let moving = |register: Register| match sums[register.index()] {
        Some(step) if step != 0 => Some((register, step)),
        _ => None,
    };
    Register::ALL.into_iter().filter_map(moving).collect()
}

/// `add r, c` and the like.
fn moved_by(instruction: &Instruction) -> Option<(Register, i64)> {
    let register = (instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register)
        .then(|| full_width(instruction.op0_register().full_register()))??;
    let by = match instruction.mnemonic() {
        Mnemonic::Inc => 1,
        Mnemonic::Dec => -1,
        Mnemonic::Add if is_immediate(instruction.op1_kind()) => instruction.immediate(1) as i64,
        Mnemonic::Sub if is_immediate(instruction.op1_kind()) => {
            (instruction.immediate(1) as i64).wrapping_neg()
        }
        Mnemonic::Lea
            if instruction.memory_index() == Name::None
                && full_width(instruction.memory_base()) == Some(register) =>
        {
            instruction.memory_displacement64() as i64
        }
        _ => return None,
    };
    Some((register, by))
}

const fn is_immediate(kind: OpKind) -> bool {
    matches!(
        kind,
        OpKind::Immediate8
            | OpKind::Immediate16
            | OpKind::Immediate32
            | OpKind::Immediate64
            | OpKind::Immediate8to16
            | OpKind::Immediate8to32
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
    )
}

/// The registers that an instruction writes, or may write.
fn written(instruction: &Instruction, factory: &mut InstructionInfoFactory) -> Vec<Register> {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};

    let used = factory.info(instruction).used_registers().iter();
    used.filter(|used| matches!(used.access(), Write | CondWrite | ReadWrite | ReadCondWrite))
        .filter_map(|used| full_width(used.register().full_register()))
        .collect()
}
