//! Where a function's indirect jumps can go.
//!
//! Compilers jump indirectly for three things, and each has a shape:
//!
//! - a tail call through a pointer: the registers that the prologue saved are restored right before it;
//! - a `switch`, position-independent: a 32-bit distance is loaded from a table and added to the table's address, or to
//!   that of a label (`goto *(base + distance[i])`); both addresses come from RIP-relative `lea`s in the function;
//! - a `switch` at a fixed address: `jmp [table + 8·i]`.
//!
//! For the tables too much is taken rather than too little. Every address outside the function that a `lea` forms
//! counts as a table, every one inside as a base, and a table is as long as the largest number that the function
//! compares or masks with allows, at least [`LEAST_ENTRIES`], up to the next such address or the first entry that
//! leads to no code at all. What is no table has hardly an entry that leads to an instruction of the function, and if
//! it does a block is shorter than it need be. A jump of any other shape can go anywhere.

use hitm_model::{Register, Svma, SvmaRange};
use iced_x86::{Instruction, Mnemonic, OpKind, Register as Name};

use super::Code;
use super::execute::full_width;
use super::scan::decoder;

/// A byte needs no comparison to be an index.
const LEAST_ENTRIES: u64 = 256;
/// Numbers above are not compared with an index of a table.
const MOST_ENTRIES: u64 = 0x1_0000;

/// Labels whose address a function takes. More are not read with every entry of every table.
const MOST_LABELS: usize = 16;
/// Instructions in which a function saves registers.
const PROLOGUE: usize = 64;

/// What one pass over a function's instructions tells about its tables.
#[derive(Debug)]
pub(super) struct Tables {
    leas: Vec<u64>,
    n_entries: u64,
}

/// What else of the file is known.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'f, 'd> {
    /// Gives the file's constant bytes from an address to the end of their section.
    pub(super) memory: &'f dyn Fn(Svma) -> Option<&'d [u8]>,
    /// Whether there can be instructions at an address.
    pub(super) is_code: &'f dyn Fn(Svma) -> bool,
}

/// Where an indirect jump goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Jump {
    /// Out of the function.
    Leaves,
    /// To an address in the table at a fixed address.
    Absolute(u64),
    /// To the address of a table, or of a label, plus a distance in the table.
    Distance,
    /// Anywhere.
    Unknown,
}

impl Tables {
    pub(super) const fn new() -> Self {
        Self {
            leas: Vec::new(),
            n_entries: LEAST_ENTRIES,
        }
    }

    /// Takes note of an instruction.
    pub(super) fn see(&mut self, instruction: &Instruction) {
        match instruction.mnemonic() {
            Mnemonic::Lea if instruction.memory_base() == Name::RIP => {
                self.leas.push(instruction.ip_rel_memory_address());
            }
            Mnemonic::Cmp | Mnemonic::And => {
                if let Ok(bound) = instruction.try_immediate(1)
                    && bound < MOST_ENTRIES
                {
                    self.n_entries = self.n_entries.max(bound + 1);
                }
            }
            _ => {}
        }
    }

    /// The addresses in one of some ranges that a jump of `code` can go to; `None` if that cannot be known.
    pub(super) fn targets(
        &mut self,
        jump: Jump,
        code: Code<'_>,
        within: &[SvmaRange],
        around: Surroundings<'_, '_>,
    ) -> Option<Vec<u64>> {
        self.leas.sort_unstable();
        self.leas.dedup();
        let is_within = |&target: &u64| within.iter().any(|range| range.contains(Svma(target)));
        let (labels, tables): (Vec<u64>, Vec<u64>) = self
            .leas
            .iter()
            .partition(|&&address| code.range().contains(Svma(address)));
        let mut targets = Vec::new();
        match jump {
            Jump::Leaves => return Some(targets),
            Jump::Unknown => return None,
            Jump::Absolute(table) => {
                let bytes = (around.memory)(Svma(table))?;
                let (entries, _) = bytes.as_chunks::<8>();
                let entries = entries.iter().take(self.n_entries as usize);
                targets.extend(entries.map(|&entry| u64::from_le_bytes(entry)));
            }
            Jump::Distance if labels.len() > MOST_LABELS => return None,
            Jump::Distance => {
                for (at, &table) in tables.iter().enumerate() {
                    let Some(bytes) = (around.memory)(Svma(table)) else {
                        continue;
                    };
                    let next = tables.get(at + 1).map_or(u64::MAX, |next| next - table);
                    let n_entries = self.n_entries.min(next / 4) as usize;
                    let (entries, _) = bytes.as_chunks::<4>();
                    for &entry in entries.iter().take(n_entries) {
                        let distance = i64::from(i32::from_le_bytes(entry)).cast_unsigned();
                        let mut leads_to_code = false;
                        for base in labels.iter().chain([&table]) {
                            let target = base.wrapping_add(distance);
                            if is_within(&target) {
                                leads_to_code = true;
                                targets.push(target);
                            } else {
                                leads_to_code |= (around.is_code)(Svma(target));
                            }
                        }
                        // All entries of a table lead somewhere; this is behind its end.
                        if !leads_to_code {
                            break;
                        }
                    }
                }
            }
        }
        targets.retain(is_within);
        targets.sort_unstable();
        targets.dedup();
        // A table that leads nowhere was not the one.
        (!targets.is_empty()).then_some(targets)
    }
}

/// Classifies an indirect jump by the straight run of instructions before it, which starts at `run`.
pub(super) fn classify(code: Code<'_>, run: Svma, jump: &Instruction) -> Jump {
    if jump.is_ip_rel_memory_operand() {
        // A fixed word of memory: how functions of other files are called.
        return Jump::Leaves;
    }
    let run = straight_run(code, run, jump.ip(), usize::MAX);
    if restores_frame(&straight_run(code, code.start, u64::MAX, PROLOGUE), &run) {
        return Jump::Leaves;
    }
    match jump.op0_kind() {
        OpKind::Memory
            if jump.memory_base() == Name::None
                && jump.memory_index_scale() == 8
                && jump.memory_index() != Name::None =>
        {
            Jump::Absolute(jump.memory_displacement64())
        }
        OpKind::Register if adds_distance(&run, jump.op0_register()) => Jump::Distance,
        _ => Jump::Unknown,
    }
}

/// The instructions from `start` up to `end` or the first that may go elsewhere, at most `most`.
fn straight_run(code: Code<'_>, start: Svma, end: u64, most: usize) -> Vec<Instruction> {
    let Some(code) = code.from(start) else {
        return Vec::new();
    };
    decoder(code.bytes, code.start)
        .into_iter()
        .take_while(|instruction| {
            instruction.ip() < end && instruction.flow_control() == iced_x86::FlowControl::Next
        })
        .take(most)
        .collect()
}

/// Whether the run before a jump undoes what the run at the function's entry did to the stack.
fn restores_frame(entry: &[Instruction], run: &[Instruction]) -> bool {
    if run.last().map(Instruction::mnemonic) == Some(Mnemonic::Leave) {
        return true;
    }
    let pushed = callee_saved(entry, Mnemonic::Push);
    let mut popped = callee_saved(run, Mnemonic::Pop);
    popped.reverse();
    if pushed.is_empty() {
        let down = stack_constant(entry, Mnemonic::Sub);
        return popped.is_empty() && down.is_some() && down == stack_constant(run, Mnemonic::Add);
    }
    pushed == popped
}

/// The registers that the ABI has a function preserve, as a run of instructions pushes or pops them.
fn callee_saved(run: &[Instruction], mnemonic: Mnemonic) -> Vec<Register> {
    use Register::{R12, R13, R14, R15, Rbp, Rbx};
    run.iter()
        .filter(|instruction| {
            instruction.mnemonic() == mnemonic && instruction.op0_kind() == OpKind::Register
        })
        .filter_map(|instruction| full_width(instruction.op0_register()))
        .filter(|register| [Rbx, Rbp, R12, R13, R14, R15].contains(register))
        .collect()
}

/// The constant that is added to or subtracted from the stack pointer.
fn stack_constant(run: &[Instruction], mnemonic: Mnemonic) -> Option<u64> {
    run.iter()
        .find(|instruction| {
            instruction.mnemonic() == mnemonic && instruction.op0_register() == Name::RSP
        })
        .and_then(|instruction| instruction.try_immediate(1).ok())
}

/// Whether the run before `jmp target` loads a distance and adds it to something: `movsxd t, [table+4·i]; add t, base`,
/// or without optimisation `mov eax, [rdx+rax]; cdqe; lea rdx, [table]; add rax, rdx`.
fn adds_distance(run: &[Instruction], target: Name) -> bool {
    let writes_target = |instruction: &Instruction| {
        instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && instruction.op0_register().full_register() == target
    };
    let Some(sum) = run.iter().rposition(writes_target) else {
        return false;
    };
    let is_sum = match run[sum].mnemonic() {
        Mnemonic::Add => run[sum].op1_kind() == OpKind::Register,
        Mnemonic::Lea => {
            run[sum].memory_index() != Name::None && run[sum].memory_displacement64() == 0
        }
        _ => false,
    };
    is_sum
        && run[..sum].iter().any(|load| {
            matches!(load.mnemonic(), Mnemonic::Movsxd | Mnemonic::Mov)
                && load.op0_kind() == OpKind::Register
                && load.op1_kind() == OpKind::Memory
                && load.memory_size().size() == 4
                && load.memory_index() != Name::None
                && load.memory_displacement64() == 0
        })
}
