//! Whether two pieces of code are the same but for the addresses in them.
//!
//! Two builds of a function differ in every instruction that names a place, although nothing in it changed: the places
//! moved. So places are compared by what they are, which the caller knows, and everything else bit by bit. A distance
//! from the thread's own block of memory (`fs:`) names a place too.

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
    /// How the instructions use it.
    pub how: PlaceUse,
}

/// How an instruction uses a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceUse {
    /// It goes there.
    Branch,
    /// It accesses so many bytes there, and nothing else.
    Access(u32),
    /// It takes the address, or accesses an element of what is there.
    Address,
}

/// How alike two places of two builds are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Likeness {
    /// They are the same thing.
    Same,
    /// They are constants at the same place in the code's scheme, with other bytes.
    OtherContents,
    /// They are two things.
    Other,
}

/// What places of two builds are.
pub trait Places {
    /// Whether a number in the code may be an address at all, in both builds: not so where programs are loaded anywhere.
    fn are_addresses(&self, old: Svma, new: Svma) -> bool;

    /// How alike two places are.
    fn likeness(&self, reference: Reference) -> Likeness;

    /// Whether two distances from the thread's pointer lead to the same thread-local; `None` if one of them leads to
    /// none that is known.
    fn same_thread_local(&self, old: i64, new: i64) -> Option<bool>;
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
    /// The first instructions that lead to constants with other bytes.
    pub contents: Option<(Svma, Svma)>,
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

/// Compares two pieces of code.
#[must_use]
pub fn compare(old: Code<'_>, new: Code<'_>, places: &dyn Places) -> Comparison {
    let (old_all, new_all) = (read(old), read(new));
    let mut comparison = Comparison {
        old_instructions: old_all.len() as u64,
        new_instructions: new_all.len() as u64,
        addresses: 0,
        contents: None,
        difference: None,
    };
    let pair = Pair {
        old: &old_all,
        new: &new_all,
        ranges: (old, new),
        thread: ThreadPointer::of(&old_all),
        places,
    };
    for (a, b) in old_all.iter().zip(&new_all) {
        let at = (Svma(a.ip()), Svma(b.ip()));
        match pair.instruction(a, b) {
            Ok(found) => {
                comparison.addresses += found.addresses;
                if found.contents && comparison.contents.is_none() {
                    comparison.contents = Some(at);
                }
            }
            Err(why) => {
                comparison.difference = Some(Difference {
                    old: at.0,
                    new: at.1,
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

/// How many instructions of a function are before an address, padding not counted.
#[must_use]
pub fn ordinal(code: Code<'_>, at: Svma) -> usize {
    read(code).partition_point(|instruction| instruction.ip() < at.0)
}

/// All instructions but those that fill gaps.
pub(super) fn read(code: Code<'_>) -> Vec<Instruction> {
    let decoder = Decoder::with_ip(64, code.bytes, code.start.0, DecoderOptions::NONE);
    decoder
        .into_iter()
        .filter(|instruction| instruction.mnemonic() != Mnemonic::Nop)
        .collect()
}

/// What of two instructions differs that does not matter.
#[derive(Clone, Copy, Default)]
struct Found {
    /// Addresses.
    addresses: u64,
    /// Whether they lead to constants with other bytes.
    contents: bool,
}

impl Found {
    const NOTHING: Self = Self {
        addresses: 0,
        contents: false,
    };

    fn moved(differs: bool) -> Self {
        Self {
            addresses: u64::from(differs),
            contents: false,
        }
    }
}

/// How a function comes to its thread-locals.
struct ThreadPointer {
    /// Registers that it loads the thread's pointer into somewhere.
    registers: Vec<Name>,
    /// Whether it accesses anything by `fs` at all.
    is_used: bool,
}

impl ThreadPointer {
    fn of(all: &[Instruction]) -> Self {
        let by_fs = |i: &&Instruction| i.memory_segment() == Name::FS && has_memory(i);
        let registers = all
            .iter()
            .filter(by_fs)
            .filter(|i| {
                let plain = i.memory_base() == Name::None && i.memory_index() == Name::None;
                i.mnemonic() == Mnemonic::Mov
                    && i.op0_kind() == OpKind::Register
                    && plain
                    && i.memory_displacement64() == 0
            })
            .map(|i| i.op0_register().full_register())
            .collect();
        Self {
            registers,
            is_used: all.iter().any(|i| by_fs(&i)),
        }
    }
}

fn has_memory(instruction: &Instruction) -> bool {
    instruction.op_kinds().any(|kind| kind == OpKind::Memory)
}

struct Pair<'a, 'b> {
    old: &'a [Instruction],
    new: &'a [Instruction],
    ranges: (Code<'b>, Code<'b>),
    thread: ThreadPointer,
    places: &'a dyn Places,
}

impl Pair<'_, '_> {
    /// The addresses that differ in two instructions that are else the same.
    fn instruction(&self, a: &Instruction, b: &Instruction) -> Result<Found, &'static str> {
        if a.is_invalid() || b.is_invalid() {
            let bytes = |code: Code<'_>, at: u64| {
                code.bytes
                    .get(at.wrapping_sub(code.start.0) as usize)
                    .copied()
            };
            let alike = bytes(self.ranges.0, a.ip()) == bytes(self.ranges.1, b.ip());
            return if alike {
                Ok(Found::NOTHING)
            } else {
                Err("bytes that are no instruction differ")
            };
        }
        // A branch is short or long, as its target is near or far.
        let branches = a.op0_kind() == OpKind::NearBranch64 && b.op0_kind() == OpKind::NearBranch64;
        if a.mnemonic() != b.mnemonic() {
            return Err("another instruction");
        }
        if a.code() != b.code() && !branches && !self.differ_in_width(a, b) {
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
        let mut all = Found::NOTHING;
        for operand in 0..a.op_count() {
            let found = self.operand(a, b, operand)?;
            all.addresses += found.addresses;
            all.contents |= found.contents;
        }
        Ok(all)
    }

    /// Whether two encodings differ only in how wide a number is written that is a distance of a thread-local.
    fn differ_in_width(&self, a: &Instruction, b: &Instruction) -> bool {
        let last = |i: &Instruction| i.op_count().checked_sub(1);
        let (Some(x), Some(y)) = (last(a), last(b)) else {
            return false;
        };
        let number = |i: &Instruction, operand| i.try_immediate(operand).ok();
        match (number(a, x), number(b, y)) {
            (Some(m), Some(n)) => self.is_same_thread_local(m, n) && a.op0_kind() == b.op0_kind(),
            _ => false,
        }
    }

    fn operand(
        &self,
        a: &Instruction,
        b: &Instruction,
        operand: u32,
    ) -> Result<Found, &'static str> {
        let kind = a.op_kind(operand);
        if kind == b.op_kind(operand) {
            match kind {
                OpKind::Register => {
                    return match a.op_register(operand) == b.op_register(operand) {
                        true => Ok(Found::NOTHING),
                        false => Err("another register"),
                    };
                }
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                    return self.branch(a.near_branch_target(), b.near_branch_target());
                }
                OpKind::Memory => return self.memory(a, b),
                _ => {}
            }
        }
        match (a.try_immediate(operand), b.try_immediate(operand)) {
            (Ok(x), Ok(y)) if x == y && kind == b.op_kind(operand) => self.same_number(a, x),
            (Ok(x), Ok(y)) if self.is_same_thread_local(x, y) => Ok(Found::moved(x != y)),
            (Ok(x), Ok(y)) if kind == b.op_kind(operand) => {
                self.number(x, y, PlaceUse::Address, "another number")
            }
            // Implied ones, as those of string instructions, are the instruction's.
            (Err(_), Err(_)) if kind == b.op_kind(operand) => Ok(Found::NOTHING),
            _ => Err("another operand"),
        }
    }

    /// The same number may be the address of what only now is there. Addresses are moved into registers.
    fn same_number(&self, a: &Instruction, x: u64) -> Result<Found, &'static str> {
        if a.mnemonic() != Mnemonic::Mov || !self.places.are_addresses(Svma(x), Svma(x)) {
            return Ok(Found::NOTHING);
        }
        self.place(x, x, PlaceUse::Address, "the address of something else")
    }

    /// Whether numbers are distances of one thread-local, in a function that accesses some.
    fn is_same_thread_local(&self, x: u64, y: u64) -> bool {
        let (x, y) = (x.cast_signed(), y.cast_signed());
        // The main program's thread-locals are before the thread's pointer.
        let negative = x < 0 && y < 0;
        self.thread.is_used && negative && self.places.same_thread_local(x, y) == Some(true)
    }

    fn branch(&self, a: u64, b: u64) -> Result<Found, &'static str> {
        let inside = |code: Code<'_>, at: u64| code.range().contains(Svma(at));
        match (inside(self.ranges.0, a), inside(self.ranges.1, b)) {
            (true, true) => {
                let number = |all: &[Instruction], at| all.partition_point(|i| i.ip() < at);
                match number(self.old, a) == number(self.new, b) {
                    true => Ok(Found::NOTHING),
                    false => Err("a branch to another place"),
                }
            }
            (false, false) => {
                let reference = Reference {
                    old: Svma(a),
                    new: Svma(b),
                    how: PlaceUse::Branch,
                };
                match self.places.likeness(reference) {
                    Likeness::Same => Ok(Found::moved(a != b)),
                    _ => Err("a call of or a jump to something else"),
                }
            }
            _ => Err("a branch to another place"),
        }
    }

    fn memory(&self, a: &Instruction, b: &Instruction) -> Result<Found, &'static str> {
        let form = |i: &Instruction| {
            let base = (i.memory_base(), i.memory_index(), i.memory_index_scale());
            (base, i.memory_segment(), i.is_broadcast())
        };
        if form(a) != form(b) {
            return Err("another memory operand");
        }
        let (x, y) = (a.memory_displacement64(), b.memory_displacement64());
        let lea = a.mnemonic() == Mnemonic::Lea;
        let how = match u32::try_from(a.memory_size().size()) {
            Ok(size) if !lea => PlaceUse::Access(size),
            _ => PlaceUse::Address,
        };
        if a.is_ip_rel_memory_operand() {
            return self.place(x, y, how, "an access of something else");
        }
        let (base, index) = (a.memory_base(), a.memory_index());
        let by_thread = a.memory_segment() == Name::FS;
        if by_thread && base == Name::None {
            return match self
                .places
                .same_thread_local(x.cast_signed(), y.cast_signed())
            {
                Some(true) => Ok(Found::moved(x != y)),
                None if x == y => Ok(Found::NOTHING),
                _ => Err("an access of another thread-local"),
            };
        }
        if x == y {
            let is_place = base == Name::None && !by_thread;
            let how = match index {
                Name::None => how,
                _ => PlaceUse::Address,
            };
            return match is_place && self.places.are_addresses(Svma(x), Svma(y)) {
                true => self.place(x, y, how, "an access of something else"),
                false => Ok(Found::NOTHING),
            };
        }
        let from_thread = by_thread || self.thread.registers.contains(&base);
        if from_thread && self.is_same_thread_local(x, y) {
            return Ok(Found::moved(true));
        }
        // Where a program is loaded at a fixed address, a table's address is a displacement.
        let indexed = base == Name::None || index != Name::None;
        match indexed || x > 0x10_0000 {
            true if index == Name::None && base == Name::None => {
                self.number(x, y, how, "another offset")
            }
            true => self.number(x, y, PlaceUse::Address, "another offset"),
            false => Err("another offset"),
        }
    }

    /// A number that is not relative to the code.
    fn number(
        &self,
        a: u64,
        b: u64,
        how: PlaceUse,
        why: &'static str,
    ) -> Result<Found, &'static str> {
        match self.places.are_addresses(Svma(a), Svma(b)) {
            true => self.place(a, b, how, why),
            false => Err(why),
        }
    }

    fn place(
        &self,
        a: u64,
        b: u64,
        how: PlaceUse,
        why: &'static str,
    ) -> Result<Found, &'static str> {
        let (old, new) = (Svma(a), Svma(b));
        match self.places.likeness(Reference { old, new, how }) {
            Likeness::Same => Ok(Found::moved(a != b)),
            Likeness::OtherContents => Ok(Found {
                addresses: u64::from(a != b),
                contents: true,
            }),
            Likeness::Other => Err(why),
        }
    }
}
