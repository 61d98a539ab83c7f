//! Whether two pieces of code are the same but for the addresses in them.
//!
//! Two builds of a function differ in every instruction that names a place, although nothing in it changed: the places
//! moved. So places are compared by what they are, which the caller knows, and everything else bit by bit.

use hitm_model::Svma;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register as Name};

use super::Code;

/// A place that an instruction of one build names, and what the other one names there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// The place in the old build.
    pub old: Svma,
    /// The place in the new build.
    pub new: Svma,
    /// The bytes that are accessed there; `None` for a branch, a call, or an address that is only taken.
    pub size: Option<u32>,
}

/// How two pieces of code compare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// Instructions of the old one, without those that do nothing.
    pub old_instructions: u64,
    /// The same of the new one.
    pub new_instructions: u64,
    /// Addresses in them that differ, where both are the same but for these.
    pub addresses: u64,
    /// The first difference that is not one of addresses.
    pub difference: Option<Difference>,
}

/// Where two pieces of code differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The instruction of the old one.
    pub old: Svma,
    /// The instruction of the new one.
    pub new: Svma,
    /// What differs.
    pub why: &'static str,
}

/// Compares two pieces of code. `same` says whether two places are the same thing, `is_address` whether a number may be
/// one at all, of the old and the new build.
#[must_use]
pub fn compare(
    old: Code<'_>,
    new: Code<'_>,
    is_address: &dyn Fn(Svma, Svma) -> bool,
    same: &dyn Fn(Reference) -> bool,
) -> Comparison {
    let (old_all, new_all) = (read(old), read(new));
    let mut comparison = Comparison {
        old_instructions: old_all.len() as u64,
        new_instructions: new_all.len() as u64,
        addresses: 0,
        difference: None,
    };
    let pair = Pair {
        old: &old_all,
        new: &new_all,
        ranges: (old, new),
        is_address,
        same,
    };
    for (a, b) in old_all.iter().zip(&new_all) {
        match pair.instruction(a, b) {
            Ok(addresses) => comparison.addresses += addresses,
            Err(why) => {
                comparison.difference = Some(Difference {
                    old: Svma(a.ip()),
                    new: Svma(b.ip()),
                    why,
                });
                return comparison;
            }
        }
    }
    if old_all.len() != new_all.len() {
        let n = old_all.len().min(new_all.len());
        let at = |all: &[Instruction], code: Code<'_>| {
            let end = code.start.wrapping_add(code.bytes.len() as u64);
            all.get(n).map_or(end, |next| Svma(next.ip()))
        };
        comparison.difference = Some(Difference {
            old: at(&old_all, old),
            new: at(&new_all, new),
            why: "one of them goes on",
        });
    }
    comparison
}

/// The word of memory that a stub in `.plt` jumps by.
#[must_use]
pub fn stub_slot(code: Code<'_>) -> Option<Svma> {
    read(code).iter().take(4).find_map(|instruction| {
        let jumps =
            instruction.mnemonic() == Mnemonic::Jmp && instruction.is_ip_rel_memory_operand();
        jumps.then(|| Svma(instruction.ip_rel_memory_address()))
    })
}

/// All instructions but those that fill gaps.
fn read(code: Code<'_>) -> Vec<Instruction> {
    let decoder = Decoder::with_ip(64, code.bytes, code.start.0, DecoderOptions::NONE);
    decoder
        .into_iter()
        .filter(|instruction| instruction.mnemonic() != Mnemonic::Nop)
        .collect()
}

struct Pair<'a, 'b> {
    old: &'a [Instruction],
    new: &'a [Instruction],
    ranges: (Code<'b>, Code<'b>),
    is_address: &'a dyn Fn(Svma, Svma) -> bool,
    same: &'a dyn Fn(Reference) -> bool,
}

impl Pair<'_, '_> {
    /// The addresses that differ in two instructions that are else the same.
    fn instruction(&self, a: &Instruction, b: &Instruction) -> Result<u64, &'static str> {
        if a.is_invalid() || b.is_invalid() {
            let bytes = |code: Code<'_>, at: u64| {
                code.bytes
                    .get(at.wrapping_sub(code.start.0) as usize)
                    .copied()
            };
            let alike = bytes(self.ranges.0, a.ip()) == bytes(self.ranges.1, b.ip());
            return if alike {
                Ok(0)
            } else {
                Err("bytes that are no instruction differ")
            };
        }
        // A branch is short or long, as its target is near or far.
        let branches = a.op0_kind() == OpKind::NearBranch64 && b.op0_kind() == OpKind::NearBranch64;
        if a.mnemonic() != b.mnemonic() || (a.code() != b.code() && !branches) {
            return Err("another instruction");
        }
        let prefixes = |i: &Instruction| {
            let repeats = (i.has_rep_prefix(), i.has_repne_prefix());
            (
                i.has_lock_prefix(),
                repeats,
                i.segment_prefix(),
                i.op_mask(),
                i.zeroing_masking(),
            )
        };
        if prefixes(a) != prefixes(b) || a.op_count() != b.op_count() {
            return Err("another instruction");
        }
        let mut addresses = 0;
        for operand in 0..a.op_count() {
            addresses += self.operand(a, b, operand)?;
        }
        Ok(addresses)
    }

    fn operand(&self, a: &Instruction, b: &Instruction, operand: u32) -> Result<u64, &'static str> {
        let kind = a.op_kind(operand);
        if kind != b.op_kind(operand) {
            return Err("another operand");
        }
        match kind {
            OpKind::Register => match a.op_register(operand) == b.op_register(operand) {
                true => Ok(0),
                false => Err("another register"),
            },
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                self.branch(a.near_branch_target(), b.near_branch_target())
            }
            OpKind::Memory => self.memory(a, b),
            _ => {
                let (x, y) = match (a.try_immediate(operand), b.try_immediate(operand)) {
                    (Ok(x), Ok(y)) => (x, y),
                    // Implied ones, as those of string instructions, are the instruction's.
                    _ => return Ok(0),
                };
                match x == y {
                    true => Ok(0),
                    false => self.place(x, y, None, "another number"),
                }
            }
        }
    }

    fn branch(&self, a: u64, b: u64) -> Result<u64, &'static str> {
        let inside = |code: Code<'_>, at: u64| code.range().contains(Svma(at));
        match (inside(self.ranges.0, a), inside(self.ranges.1, b)) {
            (true, true) => {
                let number = |all: &[Instruction], at| all.partition_point(|i| i.ip() < at);
                match number(self.old, a) == number(self.new, b) {
                    true => Ok(0),
                    false => Err("a branch to another place"),
                }
            }
            (false, false) => {
                let reference = Reference {
                    old: Svma(a),
                    new: Svma(b),
                    size: None,
                };
                match (self.same)(reference) {
                    true => Ok(u64::from(a != b)),
                    false => Err("a call of or a jump to something else"),
                }
            }
            _ => Err("a branch to another place"),
        }
    }

    fn memory(&self, a: &Instruction, b: &Instruction) -> Result<u64, &'static str> {
        let form = |i: &Instruction| {
            let base = (i.memory_base(), i.memory_index(), i.memory_index_scale());
            (base, i.memory_segment(), i.is_broadcast())
        };
        if form(a) != form(b) {
            return Err("another memory operand");
        }
        let (x, y) = (a.memory_displacement64(), b.memory_displacement64());
        let lea = a.mnemonic() == Mnemonic::Lea;
        let size = u32::try_from(a.memory_size().size()).ok().filter(|_| !lea);
        if a.is_ip_rel_memory_operand() {
            return self.place(x, y, size, "an access of something else");
        }
        if x == y {
            return Ok(0);
        }
        // Where a program is loaded at a fixed address, a table's address is a displacement.
        let indexed = a.memory_base() == Name::None || a.memory_index() != Name::None;
        match indexed || x > 0x10_0000 {
            true => self.place(x, y, size, "another offset"),
            false => Err("another offset"),
        }
    }

    fn place(
        &self,
        a: u64,
        b: u64,
        size: Option<u32>,
        why: &'static str,
    ) -> Result<u64, &'static str> {
        let (old, new) = (Svma(a), Svma(b));
        let may_be = (self.is_address)(old, new);
        match may_be && (self.same)(Reference { old, new, size }) {
            true => Ok(u64::from(a != b)),
            false => Err(why),
        }
    }
}
