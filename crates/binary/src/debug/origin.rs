//! Where a pointer in a register came from, by the code that put it there.
//!
//! Location lists name pointers that are variables at an instruction. Where the pointer has no name there (`conn->stats`
//! of `conn->stats->hits++`, every variable of a program compiled without optimisation), the instructions before tell:
//! the register was loaded from a place whose type is known. The way back is followed only where it is certain: within
//! straight code, or to the only instruction of the function that sets the register.

use hitm_model::{Register, Svma};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register as Name,
};
use rustc_hash::FxHashSet;

use super::units::DieId;
use super::variables::{FramePlace, PointerVariable};
use super::{DebugInfo, TypeId};

/// Larger functions are not read.
const LARGEST: u64 = 1 << 16;
/// How many instructions deep a pointer is followed.
const DEEPEST: usize = 12;

/// What a register holds: the address of a `pointee`, plus an offset.
#[derive(Clone, Debug)]
struct Pointer {
    name: String,
    function: String,
    pointee: DieId,
    offset: i64,
    /// Whether an index was added whose value is not known.
    indexed: bool,
}

impl DebugInfo<'_> {
    /// What a register points to just before an instruction, as the code before it tells.
    ///
    /// The result is like that of [`DebugInfo::pointers_at`], but holds for the value that the register has at this very
    /// instruction; its name is an expression (`conn->stats`).
    #[must_use]
    pub fn pointer_by_code(
        &self,
        instruction: Svma,
        register: Register,
    ) -> Option<PointerVariable> {
        let trace = Trace::new(self, instruction)?;
        let at = trace
            .code
            .binary_search_by_key(&instruction.0, Instruction::ip)
            .ok()?;
        let found = trace.before(register, at, DEEPEST)?;
        // An index that was added leads to an element of an array. That it is the start of one is certain enough for
        // elements of a word at most; larger ones may be a header with an array behind it.
        let small = |ty| self.type_size(ty).is_some_and(|size| size <= 8);
        let offset = match found.indexed {
            false => found.offset.checked_neg()?,
            true if found.offset == 0 && small(TypeId(found.pointee)) => 0,
            true => return None,
        };
        Some(PointerVariable {
            name: found.name,
            function: found.function,
            register,
            offset,
            pointee: TypeId(found.pointee),
        })
    }
}

struct Trace<'a, 'i> {
    debug: &'a DebugInfo<'i>,
    code: Vec<Instruction>,
    /// Where branches of the function go.
    targets: FxHashSet<u64>,
    /// Whether `rbp` is set up at the function's start and `CFA − rbp` is 16.
    frame_pointer: bool,
}

impl<'a, 'i> Trace<'a, 'i> {
    fn new(debug: &'a DebugInfo<'i>, instruction: Svma) -> Option<Self> {
        let bounds = debug.image.function_at(instruction)?;
        if bounds.len() > LARGEST {
            return None;
        }
        let bytes = debug.image.code(bounds)?;
        let decoder = Decoder::with_ip(64, bytes, bounds.start.0, DecoderOptions::NONE);
        let code: Vec<Instruction> = decoder.into_iter().collect();
        if code.iter().any(Instruction::is_invalid) {
            return None;
        }
        let is_jump = |it: &&Instruction| {
            matches!(
                it.flow_control(),
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
            )
        };
        let targets = code
            .iter()
            .filter(is_jump)
            .map(Instruction::near_branch_target)
            .collect();
        let sets_up = |pair: &[Instruction]| {
            pair[0].mnemonic() == Mnemonic::Push
                && pair[0].op0_register() == Name::RBP
                && pair[1].mnemonic() == Mnemonic::Mov
                && pair[1].op0_register() == Name::RBP
                && pair[1].op1_register() == Name::RSP
        };
        Some(Self {
            frame_pointer: code.windows(2).take(2).any(sets_up),
            debug,
            code,
            targets,
        })
    }

    /// What a register holds before the instruction at this place: a structure of the program's, if the way leads to
    /// one.
    fn before(&self, register: Register, at: usize, depth: usize) -> Option<Pointer> {
        let depth = depth.checked_sub(1)?;
        let named = self.variable(register, self.code[at].ip());
        if named.as_ref().is_some_and(|it| self.is_structure(it)) {
            return named;
        }
        let found = self.definition(register, at).and_then(|set_at| {
            let set_at = set_at?;
            self.set_by(set_at, depth)
        });
        match (found, named) {
            (Some(found), Some(named)) if !self.is_structure(&found) => Some(named),
            (found, named) => found.or(named),
        }
    }

    /// The instruction that certainly set a register last; within, `None` if it still holds what it held when the
    /// function was called.
    fn definition(&self, register: Register, at: usize) -> Option<Option<usize>> {
        let mut joined = false;
        for place in (0..at).rev() {
            joined |= self.targets.contains(&self.code[place + 1].ip());
            let instruction = &self.code[place];
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::ConditionalBranch => {}
                FlowControl::Call | FlowControl::IndirectCall => {
                    if !is_preserved(register) {
                        return None;
                    }
                }
                _ => joined = true,
            }
            if sets(instruction, register) {
                let only = || {
                    self.code.iter().enumerate().all(|(other, it)| {
                        other == place
                            || !(sets(it, register) || is_call(it) && !is_preserved(register))
                    })
                };
                return (!joined || only()).then_some(Some(place));
            }
        }
        (!joined).then_some(None)
    }

    /// A variable that the debug information has in the register.
    fn variable(&self, register: Register, ip: u64) -> Option<Pointer> {
        let variables = self.debug.pointers_at(Svma(ip));
        let pointers = variables
            .into_iter()
            .filter(|variable| variable.register == register)
            .map(|variable| Pointer {
                name: variable.name,
                function: variable.function,
                pointee: variable.pointee.0,
                offset: variable.offset.wrapping_neg(),
                indexed: false,
            });
        pointers.max_by_key(|pointer| self.is_structure(pointer))
    }

    fn is_structure(&self, pointer: &Pointer) -> bool {
        u64::try_from(pointer.offset).is_ok_and(|offset| {
            let ty = TypeId(pointer.pointee);
            !pointer.indexed && !self.debug.field_path(ty, offset, 1).path.is_empty()
        })
    }

    /// What the instruction puts into the register that it sets.
    fn set_by(&self, at: usize, depth: usize) -> Option<Pointer> {
        let it = &self.code[at];
        let own = Register::ALL.get(it.op0_register().full_register().number())?;
        let from_register = it.op1_kind() == OpKind::Register;
        let from_memory = it.op1_kind() == OpKind::Memory;
        let immediate = || it.try_immediate(1).ok().map(u64::cast_signed);
        match it.mnemonic() {
            _ if !it.op0_register().is_gpr64() => None,
            Mnemonic::Mov if from_register => self.before(full(it.op1_register())?, at, depth),
            Mnemonic::Mov if from_memory => self.loaded(at, depth),
            Mnemonic::Lea => {
                if it.is_ip_rel_memory_operand() {
                    return self.global(it.ip_rel_memory_address());
                }
                let base = self.before(full(it.memory_base())?, at, depth)?;
                Some(Pointer {
                    offset: base.offset.checked_add(displacement(it))?,
                    indexed: base.indexed || it.memory_index() != Name::None,
                    ..base
                })
            }
            Mnemonic::Add if from_register => {
                let pointer = self
                    .before(*own, at, depth)
                    .or_else(|| self.before(full(it.op1_register())?, at, depth))?;
                Some(Pointer {
                    indexed: true,
                    ..pointer
                })
            }
            Mnemonic::Add | Mnemonic::Sub if !from_memory => {
                let pointer = self.before(*own, at, depth)?;
                let by = immediate()?;
                let by = if it.mnemonic() == Mnemonic::Sub {
                    by.checked_neg()?
                } else {
                    by
                };
                Some(Pointer {
                    offset: pointer.offset.checked_add(by)?,
                    ..pointer
                })
            }
            _ => None,
        }
    }

    /// What a load from memory gives.
    fn loaded(&self, at: usize, depth: usize) -> Option<Pointer> {
        let it = &self.code[at];
        if it.segment_prefix() != Name::None {
            return None;
        }
        if it.is_ip_rel_memory_operand() {
            let global = self.global(it.ip_rel_memory_address())?;
            return self.member(&global, 0, ".");
        }
        let base = full(it.memory_base())?;
        let is_frame = base == Register::Rsp || base == Register::Rbp && self.frame_pointer;
        if is_frame {
            if it.memory_index() != Name::None {
                return None;
            }
            let named = self.slot(it, base);
            if named.as_ref().is_some_and(|named| self.is_structure(named)) {
                return named;
            }
            let stored = self.stored(at, depth);
            return match (stored, named) {
                (Some(stored), Some(named)) if !self.is_structure(&stored) => Some(named),
                (stored, named) => stored.or(named),
            };
        }
        let pointer = self.before(base, at, depth)?;
        let indexed = it.memory_index() != Name::None;
        if pointer.indexed || indexed {
            // An element of an array of pointers: all are of one type.
            let bare = self.debug.pointee(TypeId(pointer.pointee));
            let plain = pointer.offset == 0 && displacement(it) == 0;
            return bare.filter(|_| plain).map(|target| Pointer {
                name: format!("{}[…]", pointer.name),
                pointee: target.0,
                indexed: false,
                ..pointer
            });
        }
        self.member(&pointer, displacement(it), "->")
    }

    /// The pointer that is stored behind another one.
    fn member(&self, pointer: &Pointer, displacement: i64, arrow: &str) -> Option<Pointer> {
        let offset = u64::try_from(pointer.offset.checked_add(displacement)?).ok()?;
        let target = self.debug.pointer_in(pointer.pointee, offset)?;
        let path = self.debug.field_path(TypeId(pointer.pointee), offset, 8);
        let path = path.path.trim_start_matches('.');
        Some(Pointer {
            name: match path {
                "" if arrow == "." => pointer.name.clone(),
                "" => format!("*{}", pointer.name),
                path => format!("{}{arrow}{path}", pointer.name),
            },
            function: pointer.function.clone(),
            pointee: target,
            offset: 0,
            indexed: false,
        })
    }

    fn global(&self, address: u64) -> Option<Pointer> {
        let global = self.debug.global_at(Svma(address))?;
        Some(Pointer {
            pointee: global.ty?.0,
            offset: Svma(address).offset_from(global.svma)?.cast_signed(),
            name: global.name,
            function: String::new(),
            indexed: false,
        })
    }

    /// The variable in the frame that an instruction reads.
    fn slot(&self, it: &Instruction, base: Register) -> Option<Pointer> {
        let displacement = displacement(it);
        let above = match base {
            Register::Rsp => self.debug.image.cfa_above_sp(it.ip()),
            _ => Some(16),
        };
        let variables = self.debug.frame_variables(Svma(it.ip()));
        variables.into_iter().rev().find_map(|variable| {
            let start = match (variable.place, base) {
                (FramePlace::CfaOffset(offset), _) => offset.checked_add(above?)?,
                (FramePlace::FpOffset(offset), Register::Rbp)
                | (FramePlace::SpOffset(offset), Register::Rsp) => offset,
                _ => return None,
            };
            let inside = u64::try_from(displacement.checked_sub(start)?).ok()?;
            if inside >= variable.size {
                return None;
            }
            Some(Pointer {
                pointee: self.debug.pointer_in(variable.ty.0, inside)?,
                name: variable.name,
                function: variable.function,
                offset: 0,
                indexed: false,
            })
        })
    }

    /// What was stored before, in straight code, to the word of the frame that an instruction loads.
    fn stored(&self, at: usize, depth: usize) -> Option<Pointer> {
        let load = &self.code[at];
        for place in (0..at).rev() {
            let it = &self.code[place];
            let straight = matches!(
                it.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch
            );
            if !straight || self.targets.contains(&self.code[place + 1].ip()) {
                return None;
            }
            let same_word = it.op0_kind() == OpKind::Memory
                && it.memory_base() == load.memory_base()
                && it.memory_index() == Name::None
                && displacement(it) == displacement(load);
            if same_word {
                let register = full(it.op1_register())?;
                let whole = it.mnemonic() == Mnemonic::Mov && it.op1_register().is_gpr64();
                return self
                    .before(register, place, depth.checked_sub(1)?)
                    .filter(|_| whole);
            }
            if sets(it, full(load.memory_base())?) {
                return None;
            }
        }
        None
    }
}

fn displacement(it: &Instruction) -> i64 {
    it.memory_displacement64().cast_signed()
}

fn full(name: Name) -> Option<Register> {
    name.is_gpr64()
        .then(|| Register::ALL.get(name.number()).copied())?
}

/// Whether an instruction changes a register, in whole or in part.
fn sets(it: &Instruction, register: Register) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let used = factory.info(it).used_registers();
    used.iter().any(|used| {
        let name = used.register().full_register();
        let writes = matches!(
            used.access(),
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        );
        writes && full(name) == Some(register)
    })
}

fn is_call(it: &Instruction) -> bool {
    matches!(
        it.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

/// Whether a called function gives the register back as it was.
fn is_preserved(register: Register) -> bool {
    matches!(
        register,
        Register::Rbx
            | Register::Rbp
            | Register::Rsp
            | Register::R12
            | Register::R13
            | Register::R14
            | Register::R15
    )
}
