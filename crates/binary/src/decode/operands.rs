//! Which memory an instruction accesses, how, and where in terms of the registers before it.

use hitm_model::{AccessKind, Register};
use iced_x86::{
    CodeSize, Instruction, InstructionInfo, MemorySize, Mnemonic, OpAccess, OpKind,
    Register as Name, UsedMemory,
};

use super::execute::{State, full_width, repeats};
use super::linear::Form;

/// An access that is certain if the instruction is executed.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawOperand {
    pub(super) kind: AccessKind,
    pub(super) size: u32,
    /// `None` where the address is not a sum of 64-bit registers, or which bytes are accessed depends on a mask.
    pub(super) address: Option<Form>,
    pub(super) base: Option<(Register, Form)>,
    pub(super) implicit_stack: bool,
    /// How often a repeated string instruction does it.
    pub(super) count: Option<Form>,
}

/// Larger operands are save areas of which the processor may skip parts.
const LARGEST: usize = 64;

/// Appends the accesses of `instruction`, executed in `state`.
pub(super) fn operands_of(
    instruction: &Instruction,
    info: &InstructionInfo,
    state: &State,
    into: &mut Vec<RawOperand>,
) {
    if instruction.is_string_instruction() {
        string_operands(instruction, state, into);
        return;
    }
    if is_cache_control(instruction.mnemonic()) {
        return;
    }
    let has_explicit =
        (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    for (at, memory) in info.used_memory().iter().enumerate() {
        let explicit = has_explicit && at == 0;
        if memory.access() == OpAccess::NoMemAccess || memory.access() == OpAccess::None {
            // `lea`, `nop`, and hints such as `prefetch`, for which no instruction waits.
            continue;
        }
        let size = size_of(memory.memory_size());
        let kind = kind_of(instruction, memory.access());
        let certain = kind.is_some()
            && (1..=LARGEST).contains(&size)
            && !is_masked(instruction)
            && !addresses_bits(instruction);
        into.push(RawOperand {
            kind: kind.unwrap_or(AccessKind::Read),
            size: size as u32,
            address: match certain {
                true => address_of(instruction, memory, explicit, state),
                false => None,
            },
            base: base_of(instruction, memory, state),
            implicit_stack: !explicit && instruction.is_stack_instruction(),
            count: None,
        });
    }
}

fn address_of(
    instruction: &Instruction,
    memory: &UsedMemory,
    explicit: bool,
    state: &State,
) -> Option<Form> {
    if memory.address_size() != CodeSize::Code64 {
        return None;
    }
    let sum = if explicit && instruction.is_ip_rel_memory_operand() {
        Form::in_file(memory.displacement())
    } else {
        state.sum(
            memory.base(),
            memory.index(),
            memory.scale(),
            memory.displacement(),
        )?
    };
    in_segment(memory.segment(), sum)
}

/// The base register, where it is a pointer.
fn base_of(
    instruction: &Instruction,
    memory: &UsedMemory,
    state: &State,
) -> Option<(Register, Form)> {
    let base = full_width(memory.base())?;
    // In a segment it is an offset, and `pop [rsp+x]` adds to the register before.
    let offset = matches!(memory.segment(), Name::FS | Name::GS);
    let moved = instruction.mnemonic() == Mnemonic::Pop && base == Register::Rsp;
    (!offset && !moved).then(|| (base, *state.get(base)))
}

fn in_segment(segment: Name, offset: Form) -> Option<Form> {
    match segment {
        Name::FS => offset.plus(1, &Form::fs_base()),
        // Its base is not known; user code of Linux does not use it.
        Name::GS => None,
        _ => Some(offset),
    }
}

/// String instructions: the element at the current pointers. A repeated one goes on from there, for at most `rcx`
/// elements, and accesses nothing if `rcx` is 0.
fn string_operands(instruction: &Instruction, state: &State, into: &mut Vec<RawOperand>) {
    use Mnemonic::{
        Cmpsb, Cmpsd, Cmpsq, Cmpsw, Lodsb, Lodsd, Lodsq, Lodsw, Movsb, Movsd, Movsq, Movsw, Scasb,
        Scasd, Scasq, Scasw, Stosb, Stosd, Stosq, Stosw,
    };

    let (source, destination) = match instruction.mnemonic() {
        Movsb | Movsw | Movsd | Movsq => (Some(AccessKind::Read), Some(AccessKind::Write)),
        Cmpsb | Cmpsw | Cmpsd | Cmpsq => (Some(AccessKind::Read), Some(AccessKind::Read)),
        Lodsb | Lodsw | Lodsd | Lodsq => (Some(AccessKind::Read), None),
        Scasb | Scasw | Scasd | Scasq => (None, Some(AccessKind::Read)),
        Stosb | Stosw | Stosd | Stosq => (None, Some(AccessKind::Write)),
        // Input and output, which user code may not do.
        _ => return,
    };
    let long = (0..instruction.op_count()).all(|operand| {
        matches!(
            instruction.op_kind(operand),
            OpKind::MemorySegRSI | OpKind::MemoryESRDI | OpKind::Register
        )
    });
    let mut count = repeats(instruction).then(|| *state.get(Register::Rcx));
    match count.and_then(|count| count.as_constant()) {
        Some(0) => return,
        Some(_) => count = None,
        None => {}
    }
    for (kind, pointer, segment) in [
        (source, Register::Rsi, instruction.memory_segment()),
        (destination, Register::Rdi, Name::ES),
    ] {
        let Some(kind) = kind else { continue };
        let form = *state.get(pointer);
        into.push(RawOperand {
            kind,
            size: size_of(instruction.memory_size()) as u32,
            address: if long {
                in_segment(segment, form)
            } else {
                None
            },
            base: (segment != Name::FS).then_some((pointer, form)),
            implicit_stack: false,
            count,
        });
    }
}

/// The bytes read or written: of a broadcast, the one element.
fn size_of(size: MemorySize) -> usize {
    match size.is_broadcast() {
        true => size.element_size(),
        false => size.size(),
    }
}

/// `None` if it depends on data whether the bytes are accessed.
pub(crate) fn kind_of(instruction: &Instruction, access: OpAccess) -> Option<AccessKind> {
    Some(match access {
        OpAccess::Read => AccessKind::Read,
        OpAccess::Write => AccessKind::Write,
        // `cmpxchg` writes in any case: the old value where the comparison fails.
        OpAccess::ReadWrite | OpAccess::ReadCondWrite if is_atomic(instruction) => {
            AccessKind::Atomic
        }
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => AccessKind::Update,
        // A conditional move loads in any case.
        OpAccess::CondRead if is_conditional_move(instruction.mnemonic()) => AccessKind::Read,
        _ => return None,
    })
}

fn is_atomic(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Aadd, Aand, Aor, Axor, Cmpbexadd, Cmpbxadd, Cmplexadd, Cmplxadd, Cmpnbexadd, Cmpnbxadd,
        Cmpnlexadd, Cmpnlxadd, Cmpnoxadd, Cmpnpxadd, Cmpnsxadd, Cmpnzxadd, Cmpoxadd, Cmppxadd,
        Cmpsxadd, Cmpzxadd, Xchg,
    };
    instruction.has_lock_prefix()
        // These need no prefix.
        || matches!(
            instruction.mnemonic(),
            Xchg | Aadd | Aand | Aor | Axor | Cmpbexadd | Cmpbxadd | Cmplexadd | Cmplxadd
                | Cmpnbexadd | Cmpnbxadd | Cmpnlexadd | Cmpnlxadd | Cmpnoxadd | Cmpnpxadd
                | Cmpnsxadd | Cmpnzxadd | Cmpoxadd | Cmppxadd | Cmpsxadd | Cmpzxadd
        )
}

/// Whether a mask in a register says which bytes are accessed.
fn is_masked(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Maskmovdqu, Maskmovq, Vmaskmovdqu, Vmaskmovpd, Vmaskmovps, Vpmaskmovd, Vpmaskmovq,
    };
    instruction.has_op_mask()
        || matches!(
            instruction.mnemonic(),
            Maskmovdqu | Maskmovq | Vmaskmovdqu | Vmaskmovpd | Vmaskmovps | Vpmaskmovd | Vpmaskmovq
        )
}

/// Instructions that move a line between caches and memory without accessing its bytes.
fn is_cache_control(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Cldemote, Clflush, Clflushopt, Clwb};
    matches!(mnemonic, Cldemote | Clflush | Clflushopt | Clwb)
}

pub(crate) fn is_conditional_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Cmova, Cmovae, Cmovb, Cmovbe, Cmove, Cmovg, Cmovge, Cmovl, Cmovle, Cmovne, Cmovno, Cmovnp,
        Cmovns, Cmovo, Cmovp, Cmovs,
    };
    matches!(
        mnemonic,
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovnp
            | Cmovns
            | Cmovo
            | Cmovp
            | Cmovs
    )
}

/// `bt [m], r` and its kin access the byte with bit `r` counted from the operand, however far away.
fn addresses_bits(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Bt | Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    ) && instruction.op1_kind() == OpKind::Register
}
