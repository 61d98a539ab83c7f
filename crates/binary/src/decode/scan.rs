//! One pass over the instructions of a piece of code.

use hitm_model::{Svma, SvmaRange};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register as Name,
};

use super::Code;
use super::loops::{Branch, BranchKind};
use super::tables::{Jump, Surroundings, Tables, classify};

/// What the instructions of a piece of code say about where control goes.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    code: Code<'a>,
    /// Where each instruction begins.
    pub(super) starts: Starts,
    /// The direct branches and calls.
    pub(super) branches: Vec<Branch>,
    /// Branches out of the code, not calls: where to, and whether on a condition.
    pub(super) exits: Vec<(Svma, bool)>,
    /// Whether all bytes are instructions.
    pub(super) complete: bool,
    /// Whether nothing in it can set the direction flag; the ABI has it clear at every call.
    pub(super) upwards: bool,
    /// What it does to `rbp`.
    pub(super) frame_pointer: FramePointer,
    jumps: Vec<Jump>,
    tables: Tables,
}

impl<'a> Scan<'a> {
    pub(super) fn new(code: Code<'a>) -> Self {
        let range = code.range();
        let mut scan = Self {
            code,
            starts: Starts::new(code.bytes.len()),
            branches: Vec::new(),
            exits: Vec::new(),
            complete: true,
            upwards: true,
            frame_pointer: FramePointer::Unset,
            jumps: Vec::new(),
            tables: Tables::new(),
        };
        let mut run = code.start;
        let mut decoder = decoder(code.bytes, code.start);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            scan.starts.add(decoder.position());
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                scan.complete = false;
                scan.upwards = false;
                scan.frame_pointer = FramePointer::Misused;
                break;
            }
            match instruction.mnemonic() {
                Mnemonic::Std | Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq => {
                    scan.upwards = false;
                }
                _ => scan.tables.see(&instruction),
            }
            scan.frame_pointer = scan.frame_pointer.behind(&instruction);
            let flow = instruction.flow_control();
            match flow {
                FlowControl::Next => continue,
                FlowControl::IndirectBranch => {
                    scan.jumps.push(classify(code, run, &instruction));
                }
                _ => {}
            }
            run = Svma(instruction.next_ip());
            if instruction.op_count() == 0 || instruction.op0_kind() != OpKind::NearBranch64 {
                continue;
            }
            let target = instruction.near_branch64();
            scan.branches.push(Branch {
                from: instruction.ip(),
                to: target,
                kind: match flow {
                    FlowControl::UnconditionalBranch => BranchKind::Jump,
                    FlowControl::ConditionalBranch => BranchKind::Conditional,
                    _ => BranchKind::Other,
                },
            });
            if flow != FlowControl::Call && !range.contains(Svma(target)) {
                let conditional = flow == FlowControl::ConditionalBranch;
                scan.exits.push((Svma(target), conditional));
            }
        }
        scan.jumps.sort_unstable();
        scan.jumps.dedup();
        scan
    }

    /// Where direct branches and calls go.
    pub(super) fn targets(&self) -> Vec<u64> {
        self.branches.iter().map(|branch| branch.to).collect()
    }

    /// Where indirect jumps go, as far as that is in one of the ranges; `None` if that cannot be known.
    pub(super) fn indirect_targets(
        &mut self,
        within: &[SvmaRange],
        around: Surroundings<'_, '_>,
    ) -> Option<Vec<u64>> {
        let mut targets = Vec::new();
        for &jump in &self.jumps {
            targets.extend(self.tables.targets(jump, self.code, within, around)?);
        }
        Some(targets)
    }
}

/// What code does to `rbp`, besides having the caller's value in it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FramePointer {
    /// Nothing.
    Unset,
    /// It points to the stack frame.
    Set,
    /// It may point anywhere.
    Misused,
}

impl FramePointer {
    /// With another instruction.
    fn behind(self, instruction: &Instruction) -> Self {
        use Mnemonic::{Cmp, Lea, Leave, Mov, Mulx, Pop, Push, Test, Xadd, Xchg};

        let mnemonic = instruction.mnemonic();
        let is_rbp = |operand| {
            operand < instruction.op_count()
                && instruction.op_kind(operand) == OpKind::Register
                && instruction.op_register(operand).full_register() == Name::RBP
        };
        let writes = is_rbp(0) && !matches!(mnemonic, Push | Pop | Leave | Cmp | Test)
            || is_rbp(1) && matches!(mnemonic, Xchg | Xadd | Mulx);
        if !writes {
            return self;
        }
        let is_frame = instruction.op0_register() == Name::RBP
            && match mnemonic {
                Mov => instruction.op1_register() == Name::RSP,
                Lea => {
                    instruction.memory_base() == Name::RSP
                        && instruction.memory_index() == Name::None
                }
                _ => false,
            };
        match is_frame && self != Self::Misused {
            true => Self::Set,
            false => Self::Misused,
        }
    }
}

/// The offsets at which instructions begin, a bit each.
#[derive(Clone, Debug)]
pub(super) struct Starts(Vec<u64>);

impl Starts {
    fn new(n_bytes: usize) -> Self {
        Self(vec![0; n_bytes.div_ceil(64)])
    }

    fn add(&mut self, offset: usize) {
        if let Some(word) = self.0.get_mut(offset / 64) {
            *word |= 1 << (offset % 64);
        }
    }

    /// Where the instruction `most` instructions before an address begins, or the first one.
    pub(super) fn back(&self, code: Code<'_>, address: Svma, most: usize) -> Svma {
        (code.start.0..address.0)
            .rev()
            .filter(|&before| self.contains(code, before))
            .take(most)
            .last()
            .map_or(address, Svma)
    }

    /// Whether an instruction of the code begins at an address.
    pub(super) fn contains(&self, code: Code<'_>, address: u64) -> bool {
        let Some(offset) = Svma(address).offset_from(code.start) else {
            return false;
        };
        let word = usize::try_from(offset / 64).ok();
        word.and_then(|word| self.0.get(word))
            .is_some_and(|word| word & 1 << (offset % 64) != 0)
    }
}

pub(super) fn decoder(bytes: &[u8], at: Svma) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, at.0, DecoderOptions::NONE)
}
