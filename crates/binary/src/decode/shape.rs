//! What of a function does not depend on where anything is: to find it again in another build.
//!
//! Two functions of one shape have the same instructions; which places these name is listed beside it.

use std::hash::{Hash, Hasher};

use hitm_model::Svma;
use iced_x86::{Instruction, OpKind, Register as Name};
use rustc_hash::FxHasher;

use super::Code;
use super::same::read;

/// The shape of one function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// The same for functions with the same instructions, whatever places they name.
    pub hash: u64,
    /// Of each instruction the same number where it is the same but for the places that it names; padding is left out.
    pub instructions: Vec<u32>,
    /// The places outside of the function that it names, in the order in which it names them.
    pub places: Vec<Svma>,
}

/// Reads the shape of a function. `is_address` says whether a number may be an address, as in files that are loaded
/// where they say.
#[must_use]
pub fn shape(code: Code<'_>, is_address: &dyn Fn(Svma) -> bool) -> Shape {
    let all = read(code);
    let mut shape = Shape::default();
    let mut whole = FxHasher::default();
    for instruction in &all {
        let mut hasher = FxHasher::default();
        let mut names = Vec::new();
        hash_instruction(instruction, is_address, &mut names, &mut hasher);
        for place in names {
            if code.range().contains(Svma(place)) {
                all.partition_point(|other| other.ip() < place)
                    .hash(&mut whole);
            } else {
                shape.places.push(Svma(place));
            }
        }
        let number = hasher.finish();
        number.hash(&mut whole);
        shape.instructions.push((number >> 32) as u32);
    }
    shape.hash = whole.finish();
    shape
}

/// Everything of an instruction but the places that it names.
fn hash_instruction(
    instruction: &Instruction,
    is_address: &dyn Fn(Svma) -> bool,
    names: &mut Vec<u64>,
    hasher: &mut FxHasher,
) {
    instruction.mnemonic().hash(hasher);
    let prefixes = (
        instruction.has_lock_prefix(),
        instruction.has_rep_prefix(),
        instruction.has_repne_prefix(),
    );
    prefixes.hash(hasher);
    let mut number = |value: u64, hasher: &mut FxHasher| match is_address(Svma(value)) {
        true => names.push(value),
        false => value.hash(hasher),
    };
    for operand in 0..instruction.op_count() {
        let kind = instruction.op_kind(operand);
        match kind {
            OpKind::Register => instruction.op_register(operand).hash(hasher),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                kind.hash(hasher);
            }
            OpKind::Memory => {
                let form = (
                    instruction.memory_base(),
                    instruction.memory_index(),
                    instruction.memory_index_scale(),
                    instruction.memory_segment(),
                    instruction.memory_size(),
                );
                form.hash(hasher);
                let displacement = instruction.memory_displacement64();
                let by_thread = instruction.memory_segment() == Name::FS;
                // The distance of a thread-local is a place as well.
                if !instruction.is_ip_rel_memory_operand() && !by_thread {
                    number(displacement, hasher);
                }
            }
            _ => {
                if let Ok(value) = instruction.try_immediate(operand) {
                    number(value, hasher);
                }
            }
        }
    }
    let branches = (0..instruction.op_count()).any(|operand| {
        matches!(
            instruction.op_kind(operand),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
        )
    });
    if branches {
        names.push(instruction.near_branch_target());
    }
    if instruction.is_ip_rel_memory_operand() {
        names.push(instruction.ip_rel_memory_address());
    }
}
