//! The block around an instruction pointer, executed symbolically.

use hitm_model::{Svma, SvmaRange};
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory, Mnemonic};

use super::execute::{Conventions, State};
use super::linear::Equations;
use super::operands::{RawOperand, operands_of};
use super::scan::decoder;
use super::symbols::Symbols;
use super::{Block, Code, DecodeError, Operand};

/// Instructions looked at before and from the instruction pointer on. Farther ones are executed as certainly, but not
/// around that instant: the weight of one sample would be spread too thin.
pub(super) const MOST: usize = 64;

/// The block around `ip`, in code that starts at most [`MOST`] instructions before it, with no way in between.
pub(super) fn read_block(
    code: Code<'_>,
    ip: Svma,
    conventions: Conventions,
) -> Result<Block, DecodeError> {
    let before = instructions_before(code, ip);
    let from = instructions_from(code.from(ip).unwrap_or(code));
    let Some(next) = from.first() else {
        return Err(DecodeError::Undecodable { ip });
    };

    let mut state = State::new(conventions);
    let mut found = Vec::new();
    execute(&before, -(before.len() as i32), &mut state, &mut found);
    let equations = state.sampled(next);
    execute(&from, 0, &mut state, &mut found);

    let operands: Vec<Operand> = found
        .iter()
        .filter_map(|found| resolved(found, &equations, &state.symbols))
        .collect();
    let (first, last) = (before.first().unwrap_or(next), from.last().unwrap_or(next));
    Ok(Block {
        range: SvmaRange::new(Svma(first.ip()), Svma(last.next_ip())),
        unresolved: (found.len() - operands.len()) as u32,
        operands,
        instructions: (before.len() + from.len()) as u32,
    })
}

/// An access and the instruction that does it.
struct Found {
    instruction: Svma,
    place: i32,
    operand: RawOperand,
}

/// Executes instructions, the first of them at `place`, and appends their accesses.
fn execute(instructions: &[Instruction], place: i32, state: &mut State, found: &mut Vec<Found>) {
    let mut factory = InstructionInfoFactory::new();
    let mut operands = Vec::new();
    for (instruction, place) in instructions.iter().zip(place..) {
        let info = factory.info(instruction);
        operands_of(instruction, info, state, &mut operands);
        state.execute(instruction, info, &operands);
        found.extend(operands.drain(..).map(|operand| Found {
            instruction: Svma(instruction.ip()),
            place,
            operand,
        }));
    }
}

fn resolved(found: &Found, equations: &Equations, symbols: &Symbols) -> Option<Operand> {
    let raw = &found.operand;
    let count = match &raw.count {
        None => None,
        Some(count) => Some(Box::new(equations.express(count, symbols)?)),
    };
    Some(Operand {
        instruction: found.instruction,
        kind: raw.kind,
        size: raw.size,
        address: equations.express(raw.address.as_ref()?, symbols)?,
        place: found.place,
        base: raw
            .base
            .and_then(|(register, form)| Some((register, equations.express(&form, symbols)?))),
        implicit_stack: raw.implicit_stack,
        count,
    })
}

/// The instructions that lead to `ip` without a way in between; none if instructions decoded from the code's start do
/// not meet `ip`.
fn instructions_before(code: Code<'_>, ip: Svma) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    for instruction in &mut decoder(code.bytes, code.start) {
        if instruction.ip() >= ip.0 {
            break;
        }
        match flow(&instruction) {
            Flow::On | Flow::MaybeOn => instructions.push(instruction),
            Flow::Away => instructions.clear(),
        }
    }
    if instructions
        .last()
        .is_some_and(|last| last.next_ip() != ip.0)
    {
        instructions.clear();
    }
    instructions
}

/// The instructions from the start of `code` to the first that may go elsewhere, at most [`MOST`].
fn instructions_from(code: Code<'_>) -> Vec<Instruction> {
    let mut instructions = Vec::new();
    for instruction in &mut decoder(code.bytes, code.start) {
        if instruction.is_invalid() {
            break;
        }
        let flow = flow(&instruction);
        instructions.push(instruction);
        if flow != Flow::On || instructions.len() == MOST {
            break;
        }
    }
    instructions
}

/// Where control goes after an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// To the next one.
    On,
    /// To the next one, or to another.
    MaybeOn,
    /// To another; if it comes to the next one, then from elsewhere or much later.
    Away,
}

fn flow(instruction: &Instruction) -> Flow {
    match instruction.flow_control() {
        // From here on the sample's base of fs is another one.
        FlowControl::Next if instruction.mnemonic() == Mnemonic::Wrfsbase => Flow::Away,
        FlowControl::Next => Flow::On,
        FlowControl::ConditionalBranch => Flow::MaybeOn,
        _ => Flow::Away,
    }
}
