//! A thread's call stack, from a copy of its stack and the unwind tables in its process's memory.
//!
//! A frame is found with the row of `.eh_frame` for its instruction:
//!
//! - CFA = register + offset, or an expression (functions that align their stack keep it in memory);
//! - a register of the caller = `[CFA + offset]`, `CFA + offset`, an expression, or what it is in this frame;
//! - the caller's stack pointer = CFA, its instruction = the register that stands for the return address.
//!
//! Every register is known or not, and what depends on one that is not known is not known either: nothing is guessed.
//!
//! # Caveats
//! Of a sleeping thread only the stack pointer and the instruction pointer are known at first. Its frame pointer
//! becomes known in the first frame below which it was saved; a frame that needs it before that ends the unwinding,
//! and [`Unwound::lacks_register`] says so. A
//! running thread goes on while its stack is copied: its inner frames may be mixed up then, its outer ones are not.

use std::rc::Rc;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, EvaluationResult,
    LittleEndian, Location, RegisterRule, UnwindContext, UnwindExpression, UnwindSection as _,
    Value, X86_64,
};
use hitm_model::{Avma, AvmaRange, Pid, Register, Registers, SpaceId, StackFrame};

use super::{
    code::CodeCache,
    module::{self, Module},
    space::Mappings,
    world::World,
};

/// So much of a stack is copied.
const MOST_STACK: u64 = 256 << 10;

/// Deeper stacks are cut off.
const MOST_FRAMES: usize = 256;

/// Modules with larger unwind tables are not unwound through.
const MOST_TABLES: u64 = 8 << 20;

/// Expressions in unwind tables take a few steps.
const MOST_STEPS: usize = 64;

/// Registers that a function gives back as it found them (System V ABI), by DWARF number.
const PRESERVED: [gimli::Register; 6] = [
    X86_64::RBX,
    X86_64::RBP,
    X86_64::R12,
    X86_64::R13,
    X86_64::R14,
    X86_64::R15,
];

/// Where unwinding starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) ip: Avma,
    pub(crate) sp: Avma,
    /// All registers, of a thread that was sampled here.
    pub(crate) registers: Option<Registers>,
}

/// What unwinding found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unwound {
    /// The frames, innermost first.
    pub(crate) frames: Vec<StackFrame>,
    /// Whether there are more, but finding them takes a register that is not known.
    pub(crate) lacks_register: bool,
}

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The frames of a thread, as far as they can be found. `stack` is the mapping that holds them.
pub(crate) fn unwind<W: World>(
    world: &W,
    code: &mut CodeCache,
    process: (SpaceId, Pid),
    mappings: &Mappings,
    start: Start,
    stack: AvmaRange,
) -> Unwound {
    let copy = Copied::read(world, process.1, start.sp, stack);
    let mut modules: Vec<Tables> = Vec::new();
    let mut known = Known::at(start);
    let mut is_return = false;
    let mut frames = Vec::new();
    let mut lacks_register = false;
    while frames.len() < MOST_FRAMES {
        let (Some(ip), Some(sp)) = (known.get(X86_64::RA), known.get(X86_64::RSP)) else {
            break;
        };
        // A call may be the last instruction of its function.
        let lookup = Avma(ip.wrapping_sub(u64::from(is_return)));
        let Some(module) = code.module(world, process, mappings, lookup) else {
            break;
        };
        let at = modules.iter().position(|tables| tables.module == module);
        let at = match at {
            Some(at) => at,
            None => match Tables::read(world, process.1, module) {
                Some(tables) => {
                    modules.push(tables);
                    modules.len() - 1
                }
                None => break,
            },
        };
        let Some(step) = modules[at].step(&known, lookup, &copy) else {
            break;
        };
        let Some(cfa) = step.cfa else {
            lacks_register = true;
            break;
        };
        // Stacks grow downwards, so a caller's frame is above.
        if cfa <= sp {
            break;
        }
        frames.push(StackFrame {
            ip: Avma(ip),
            cfa: Avma(cfa),
            fp: Avma(known.get(X86_64::RBP).unwrap_or(0)),
            is_return,
        });
        known = step.caller;
        is_return = !step.interrupted;
    }
    Unwound {
        frames,
        lacks_register,
    }
}

/// One frame's CFA and the registers of its caller.
#[derive(Default)]
struct Step {
    /// `None` if it takes a register that is not known; then nothing is known of the caller.
    cfa: Option<u64>,
    caller: Known,
    /// Whether the caller did not call but was interrupted by a signal.
    interrupted: bool,
}

/// Registers by DWARF number: 0 to 15 and, as 16, the instruction pointer; those that are known.
#[derive(Clone, Copy, Default)]
struct Known([Option<u64>; 17]);

impl Known {
    fn at(start: Start) -> Self {
        let mut known = Self::default();
        if let Some(registers) = start.registers {
            for number in 0..16 {
                let register = Register::from_dwarf(number);
                known.set(
                    gimli::Register(number),
                    register.map(|register| registers.get(register)),
                );
            }
        }
        known.set(X86_64::RSP, Some(start.sp.0));
        known.set(X86_64::RA, Some(start.ip.0));
        known
    }

    fn get(&self, register: gimli::Register) -> Option<u64> {
        *self.0.get(usize::from(register.0))?
    }

    fn set(&mut self, register: gimli::Register, value: Option<u64>) {
        if let Some(slot) = self.0.get_mut(usize::from(register.0)) {
            *slot = value;
        }
    }
}

/// The unwind tables of a module.
struct Tables {
    module: Rc<Module>,
    header: Vec<u8>,
    frames: Vec<u8>,
}

impl Tables {
    fn read<W: World>(world: &W, pid: Pid, module: Rc<Module>) -> Option<Self> {
        let read = |range: AvmaRange| {
            if range.len() > MOST_TABLES {
                return None;
            }
            module::read(world, pid, range.start, range.len() as usize)
        };
        Some(Self {
            header: read(module.header())?,
            frames: read(module.frames)?,
            module,
        })
    }

    /// Goes to the caller of the frame that executes `lookup`; `None` at the end of the stack too.
    fn step(&self, known: &Known, lookup: Avma, stack: &Copied) -> Option<Step> {
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(self.module.header().start.0)
            .set_eh_frame(self.module.frames.start.0);
        let header = EhFrameHdr::new(&self.header, LittleEndian);
        let header = header.parse(&bases, 8).ok()?;
        let section = EhFrame::new(&self.frames, LittleEndian);
        let fde = header
            .table()?
            .fde_for_address(&section, &bases, lookup.0, |section, bases, offset| {
                section.cie_from_offset(bases, offset)
            })
            .ok()?;
        let mut context = UnwindContext::new();
        let row = fde
            .unwind_info_for_address(&section, &bases, &mut context, lookup.0)
            .ok()?;
        let evaluate = |expression: &UnwindExpression<usize>, cfa: Option<u64>| {
            let expression = expression.get(&section).ok()?;
            evaluate(expression, fde.cie().encoding(), cfa, known, stack)
        };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                let Some(value) = known.get(*register) else {
                    return Some(Step::default());
                };
                value.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => evaluate(expression, None)?,
        };
        let value = |register| match row.register(register)? {
            RegisterRule::SameValue => known.get(register),
            RegisterRule::Offset(offset) => stack.word(Avma(cfa.wrapping_add_signed(offset))),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(other) => known.get(other),
            RegisterRule::Expression(expression) => {
                stack.word(Avma(evaluate(&expression, Some(cfa))?))
            }
            RegisterRule::ValExpression(expression) => evaluate(&expression, Some(cfa)),
            _ => None,
        };
        let mut caller = Known::default();
        for number in 0..17 {
            let register = gimli::Register(number);
            let unchanged = row.register(register).is_none() && PRESERVED.contains(&register);
            let value = if unchanged {
                known.get(register)
            } else {
                value(register)
            };
            caller.set(register, value);
        }
        if row.register(X86_64::RSP).is_none() {
            caller.set(X86_64::RSP, Some(cfa));
        }
        caller.get(X86_64::RA)?;
        Some(Step {
            cfa: Some(cfa),
            caller,
            interrupted: fde.is_signal_trampoline(),
        })
    }
}

/// The value of an expression; for a register's rule it starts with the CFA.
fn evaluate(
    expression: gimli::Expression<Slice<'_>>,
    encoding: Encoding,
    cfa: Option<u64>,
    known: &Known,
    stack: &Copied,
) -> Option<u64> {
    let mut evaluation = expression.evaluation(encoding);
    if let Some(cfa) = cfa {
        evaluation.set_initial_value(cfa);
    }
    let mut state = evaluation.evaluate().ok()?;
    for _ in 0..MOST_STEPS {
        state = match state {
            EvaluationResult::Complete => {
                let pieces = evaluation.as_result();
                return match pieces.last()?.location {
                    Location::Address { address } => Some(address),
                    _ => None,
                };
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = Value::Generic(known.get(register)?);
                evaluation.resume_with_register(value).ok()?
            }
            EvaluationResult::RequiresMemory {
                address, size: 8, ..
            } => {
                let value = Value::Generic(stack.word(Avma(address))?);
                evaluation.resume_with_memory(value).ok()?
            }
            _ => return None,
        };
    }
    None
}

/// The used part of a stack.
struct Copied {
    start: Avma,
    bytes: Vec<u8>,
}

impl Copied {
    fn read<W: World>(world: &W, pid: Pid, sp: Avma, stack: AvmaRange) -> Self {
        // Leaf functions use a little below the stack pointer, too (the red zone).
        let start = Avma(sp.0.saturating_sub(128)).max(stack.start);
        let len = stack.end.0.saturating_sub(start.0).min(MOST_STACK);
        let mut bytes = vec![0; len as usize];
        let len = world.read(pid, start, &mut bytes);
        bytes.truncate(len);
        Self { start, bytes }
    }

    fn word(&self, at: Avma) -> Option<u64> {
        let offset = usize::try_from(at.offset_from(self.start)?).ok()?;
        module::u64_at(&self.bytes, offset)
    }
}
