//! The instructions of one function, its loops, and which registers each loop changes.

use hitm_model::SvmaRange;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    InstructionInfoOptions, OpAccess, OpKind, Register as Name,
};
use rustc_hash::FxHashMap;

use super::circles;

/// Longer functions are read so far: generated tables of code, and damage.
const MOST_INSTRUCTIONS: usize = 1 << 20;

/// One function, read once.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) code: Vec<Instruction>,
    /// In how many loops each instruction is.
    pub(super) depth: Vec<u8>,
    /// Where loops begin, and what they change.
    pub(super) heads: FxHashMap<u64, Changed>,
    pub(super) complete: bool,
}

/// What a loop changes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Changed {
    /// Registers, one bit each.
    pub(super) registers: u16,
    /// Whether words of the stack frame are stored.
    pub(super) frame: bool,
}

/// The number of a general-purpose register of any width.
pub(super) fn number(register: Name) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

impl Flow {
    pub(super) fn read(range: SvmaRange, bytes: &[u8], info: &mut InstructionInfoFactory) -> Self {
        let mut flow = Self {
            complete: true,
            ..Self::default()
        };
        let mut decoder = Decoder::with_ip(64, bytes, range.start.0, DecoderOptions::NONE);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if instruction.is_invalid() || flow.code.len() >= MOST_INSTRUCTIONS {
                flow.complete = false;
                break;
            }
            flow.code.push(instruction);
        }
        flow.loops(range, info);
        flow
    }

    /// The place of the instruction at an address.
    pub(super) fn at(&self, ip: u64) -> Option<usize> {
        self.code.binary_search_by_key(&ip, Instruction::ip).ok()
    }

    /// A branch back makes a loop of what is between its target and itself and on a way in circles; code that was moved
    /// to the function's end and comes back makes none.
    fn loops(&mut self, range: SvmaRange, info: &mut InstructionInfoFactory) {
        self.depth = vec![0; self.code.len()];
        let mut ends: FxHashMap<usize, usize> = FxHashMap::default();
        for (at, instruction) in self.code.iter().enumerate() {
            let target = instruction.near_branch_target();
            if !is_jump(instruction)
                || target > instruction.ip()
                || !range.contains(hitm_model::Svma(target))
            {
                continue;
            }
            if let Some(head) = self.at(target) {
                let end = ends.entry(head).or_insert(at);
                *end = at.max(*end);
            }
        }
        if ends.is_empty() {
            return;
        }
        let circles = circles::of(&self.code, |ip| self.at(ip));
        ends.retain(|head, end| circles[*head] == circles[*end] && circles[*head].is_some());
        let mut ends: Vec<(usize, usize)> = ends.into_iter().collect();
        ends.sort_unstable();
        // Generated code may have loops in loops without end; more than a few deep, depth says nothing.
        let mut steps = 0usize;
        for (head, end) in ends {
            let mut all = Changed::default();
            steps = steps.saturating_add(end - head);
            if steps > 64 * self.code.len() + 4096 {
                all.registers = !0;
                all.frame = true;
                self.heads.insert(self.code[head].ip(), all);
                continue;
            }
            for at in head..=end {
                if circles[at] == circles[head] {
                    self.depth[at] = self.depth[at].saturating_add(1);
                    let changed = changed(&self.code[at], info);
                    all.registers |= changed.registers;
                    all.frame |= changed.frame;
                }
            }
            self.heads.insert(self.code[head].ip(), all);
        }
    }
}

/// Whether it is a jump to a known place.
pub(super) fn is_jump(instruction: &Instruction) -> bool {
    matches!(
        instruction.flow_control(),
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
    ) && instruction.op0_kind() == OpKind::NearBranch64
}

fn changed(instruction: &Instruction, info: &mut InstructionInfoFactory) -> Changed {
    let mut changed = Changed::default();
    let info = info.info_options(instruction, InstructionInfoOptions::NONE);
    for used in info.used_registers() {
        if writes(used.access())
            && let Some(number) = number(used.register())
        {
            changed.registers |= 1 << number;
        }
    }
    changed.frame = info
        .used_memory()
        .iter()
        .any(|memory| writes(memory.access()) && matches!(memory.base(), Name::RSP | Name::RBP));
    if matches!(
        instruction.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    ) {
        changed.registers |= super::registers::VOLATILE;
    }
    // Push and pop move it, and move it back before the loop goes round.
    changed.registers &= !(1 << 4);
    changed
}

/// Whether an operand with this access is written, or may be.
pub(super) fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite | OpAccess::ReadCondWrite
    )
}
