//! What an instruction does to the general-purpose registers, symbolically.

use hitm_model::Register;
use iced_x86::{
    Code, CodeSize, Instruction, InstructionInfo, Mnemonic, OpAccess, OpKind, Register as Name,
};

use super::frame::Frame;
use super::linear::{Equations, Form};
use super::operands::RawOperand;
use super::symbols::Symbols;

/// The general-purpose registers and words of the stack frame, as linear forms over symbols.
#[derive(Debug)]
pub(super) struct State {
    values: [Value; 16],
    pub(super) frame: Frame,
    pub(super) symbols: Symbols,
    upwards: bool,
}

/// What a function keeps to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conventions {
    /// The direction flag is clear, so that string instructions go upwards.
    pub(super) upwards: bool,
    /// `rbp` points into the stack frame wherever it is the base of an address.
    pub(super) frame_pointer: bool,
}

impl Conventions {
    /// Of code about which nothing is known.
    pub(super) const UNKNOWN: Self = Self {
        upwards: false,
        frame_pointer: false,
    };
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Value {
    pub(super) form: Form,
    /// Whether the upper half is known to be zero, so that a 32-bit copy is a copy of all of it.
    pub(super) narrow: bool,
}

impl From<Form> for Value {
    fn from(form: Form) -> Self {
        Self {
            form,
            narrow: false,
        }
    }
}

impl State {
    /// Nothing known but that each register has some value.
    pub(super) fn new(conventions: Conventions) -> Self {
        let mut symbols = Symbols::new();
        let values = std::array::from_fn(|_| symbols.fresh().into());
        Self {
            values,
            frame: Frame::new(conventions.frame_pointer),
            symbols,
            upwards: conventions.upwards,
        }
    }

    pub(super) fn get(&self, register: Register) -> &Form {
        &self.values[register.index()].form
    }

    fn forms(&self) -> [&Form; 16] {
        self.values.each_ref().map(|value| &value.form)
    }

    /// The instruction pointer is reached: goes on with symbols for what the registers hold now, in which later
    /// addresses are simplest, and says what those symbols are.
    pub(super) fn sampled(&mut self, next: &Instruction) -> Equations {
        if next.is_string_instruction() && repeats(next) {
            // It may have been interrupted half-way, so that its registers have moved already.
            for register in [Register::Rcx, Register::Rsi, Register::Rdi, Register::Rax] {
                self.clobber(register);
            }
        }
        let mut equations = Equations::new(self.forms());
        let old = [Register::Rsp, Register::Rbp].map(|register| *self.get(register));
        for register in Register::ALL {
            if !self.get(register).is_known() {
                let form = self.symbols.fresh();
                self.values[register.index()].form = form;
                equations.know(register, &form);
            }
        }
        let [rsp, rbp] = [Register::Rsp, Register::Rbp].map(|register| *self.get(register));
        self.frame.rename([&old[0], &rsp], [&old[1], &rbp]);
        equations
    }

    /// The value of a register that an instruction names; 32-bit and narrower ones have no linear form.
    pub(super) fn named(&self, name: Name) -> Option<&Form> {
        full_width(name).map(|register| self.get(register))
    }

    /// The sum that the operand of an instruction addresses, its segment left out.
    pub(super) fn effective_address(&self, instruction: &Instruction) -> Option<Form> {
        match instruction.memory_base() {
            Name::RIP => return Some(Form::in_file(instruction.ip_rel_memory_address())),
            Name::EIP => return None,
            _ => {}
        }
        self.sum(
            instruction.memory_base(),
            instruction.memory_index(),
            instruction.memory_index_scale(),
            // With neither base nor index, a 4-byte displacement comes from a 32-bit address size.
            match instruction.memory_displ_size() {
                4 => u64::from(instruction.memory_displacement32()),
                _ => instruction.memory_displacement64(),
            },
        )
    }

    /// base + scale·index + displacement.
    pub(super) fn sum(&self, base: Name, index: Name, scale: u32, displ: u64) -> Option<Form> {
        let mut sum = Form::constant(displ);
        if base != Name::None {
            sum = sum.plus(1, self.named(base)?)?;
        }
        if index != Name::None {
            sum = sum.plus(u64::from(scale), self.named(index)?)?;
        }
        Some(sum)
    }

    /// Executes an instruction that goes on to the next one, and has these accesses.
    pub(super) fn execute(
        &mut self,
        instruction: &Instruction,
        info: &InstructionInfo,
        operands: &[RawOperand],
    ) {
        self.execute_stores(instruction, info, operands);
        if self.execute_exactly(instruction).is_some() {
            return;
        }
        for used in info.used_registers() {
            if writes(used.access())
                && let Some(register) = general(used.register().full_register())
            {
                self.clobber(register);
            }
        }
        let name = instruction.op0_register();
        if instruction.op_count() > 0
            && instruction.op0_kind() == OpKind::Register
            && name.is_gpr32()
            && matches!(info.op0_access(), OpAccess::Write | OpAccess::ReadWrite)
            // They leave the register as it was, or not, if there is no bit.
            && !matches!(instruction.mnemonic(), Mnemonic::Bsf | Mnemonic::Bsr)
            && let Some(register) = general(name.full_register())
        {
            self.values[register.index()].narrow = true;
        }
    }

    /// Executes an instruction whose results are linear forms; `None`, and no effect, if it is not one.
    fn execute_exactly(&mut self, instruction: &Instruction) -> Option<()> {
        use Mnemonic::{Mov, Pop, Popfq, Push, Pushfq, Sub, Xchg, Xor};

        if instruction.is_string_instruction() {
            return self.execute_string(instruction);
        }
        let mnemonic = instruction.mnemonic();
        match mnemonic {
            Push | Pushfq => {
                let rsp = self.moved(Register::Rsp, instruction.stack_pointer_increment());
                self.set(Register::Rsp, rsp);
                return Some(());
            }
            Pop | Popfq => {
                let top = *self.get(Register::Rsp);
                let rsp = self.moved(Register::Rsp, instruction.stack_pointer_increment());
                self.set(Register::Rsp, rsp);
                if let Some(register) = register_operand(instruction, 0) {
                    self.values[register.index()] = self.popped(&top);
                } else if instruction.op_count() > 0
                    && instruction.op0_kind() == OpKind::Register
                    && let Some(register) = general(instruction.op0_register().full_register())
                {
                    self.clobber(register);
                }
                return Some(());
            }
            Mnemonic::Leave if instruction.code() == Code::Leaveq => {
                let top = *self.get(Register::Rbp);
                self.values[Register::Rbp.index()] = self.popped(&top);
                self.set(Register::Rsp, top.plus_constant(8));
                return Some(());
            }
            Xchg => {
                let a = register_operand(instruction, 0)?;
                let b = register_operand(instruction, 1)?;
                self.values.swap(a.index(), b.index());
                return Some(());
            }
            Mov => return self.execute_mov(instruction),
            Xor | Sub if same_registers(instruction) => {
                let name = instruction.op0_register();
                if !name.is_gpr32() && !name.is_gpr64() {
                    return None;
                }
                let register = general(name.full_register())?;
                self.values[register.index()] = Value {
                    form: Form::constant(0),
                    narrow: true,
                };
                return Some(());
            }
            _ => {}
        }

        let (register, value) = self.computed(instruction)?;
        self.values[register.index()] = value;
        Some(())
    }

    fn execute_mov(&mut self, instruction: &Instruction) -> Option<()> {
        if instruction.op0_kind() != OpKind::Register {
            // A store.
            return Some(());
        }
        let name = instruction.op0_register();
        let register = general(name.full_register())?;
        let value = if name.is_gpr64() {
            match reads_thread_pointer(instruction) {
                true => Form::fs_base().into(),
                false => self.source(instruction, 1)?,
            }
        } else if name.is_gpr32() {
            match instruction.op1_kind() {
                OpKind::Register => {
                    let from = general(instruction.op1_register().full_register())?;
                    let value = self.values[from.index()];
                    match value.narrow {
                        true => value,
                        false => self.low(&value.form, u32::MAX),
                    }
                }
                OpKind::Immediate32 => Value {
                    form: Form::constant(u64::from(instruction.immediate32())),
                    narrow: true,
                },
                _ => return None,
            }
        } else {
            return None;
        };
        self.values[register.index()] = value;
        Some(())
    }

    /// String instructions move their pointers by the size of an element, upwards if the direction flag is clear.
    fn execute_string(&mut self, instruction: &Instruction) -> Option<()> {
        if !self.upwards || repeats(instruction) {
            return None;
        }
        let size = instruction.memory_size().size() as u64;
        let mut moves = [None; 2];
        for operand in 0..instruction.op_count() {
            match instruction.op_kind(operand) {
                OpKind::MemorySegRSI => moves[0] = Some(Register::Rsi),
                OpKind::MemoryESRDI => moves[1] = Some(Register::Rdi),
                OpKind::Register => {}
                _ => return None,
            }
        }
        // A load's destination is clobbered as well.
        if instruction.op0_kind() == OpKind::Register && moves[0].is_some() {
            self.clobber(Register::Rax);
        }
        for register in moves.into_iter().flatten() {
            let form = self.get(register).plus_constant(size);
            self.set(register, form);
        }
        Some(())
    }

    /// A register, an immediate or a word of the frame that an instruction reads, 64 bits wide.
    pub(super) fn source(&mut self, instruction: &Instruction, operand: u32) -> Option<Value> {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = full_width(instruction.op_register(operand))?;
                Some(self.values[register.index()])
            }
            OpKind::Immediate8
            | OpKind::Immediate8to64
            | OpKind::Immediate32to64
            | OpKind::Immediate64 => Some(Form::constant(instruction.immediate(operand)).into()),
            OpKind::Memory => self.loaded(instruction),
            _ => None,
        }
    }

    /// The word at the top of the stack.
    fn popped(&mut self, top: &Form) -> Value {
        let word = self.word(top);
        word.unwrap_or_else(|| self.symbols.fresh().into())
    }

    fn moved(&self, register: Register, bytes: i32) -> Form {
        self.get(register)
            .plus_constant(i64::from(bytes).cast_unsigned())
    }

    fn set(&mut self, register: Register, form: Form) {
        self.values[register.index()] = form.into();
    }

    fn clobber(&mut self, register: Register) {
        let form = self.symbols.fresh();
        self.set(register, form);
    }
}

/// Whether a string instruction has a prefix that repeats it.
pub(super) fn repeats(instruction: &Instruction) -> bool {
    instruction.has_rep_prefix() || instruction.has_repne_prefix()
}

/// The register with a 64-bit name.
pub(super) fn full_width(name: Name) -> Option<Register> {
    if name.is_gpr64() { general(name) } else { None }
}

pub(super) fn general(full: Name) -> Option<Register> {
    if !full.is_gpr64() {
        return None;
    }
    Register::ALL.get(full.number()).copied()
}

/// The register that an operand is, if it is one of 64 bits.
fn register_operand(instruction: &Instruction, operand: u32) -> Option<Register> {
    if operand >= instruction.op_count() || instruction.op_kind(operand) != OpKind::Register {
        return None;
    }
    full_width(instruction.op_register(operand))
}

fn same_registers(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

/// `mov r64, fs:0`: the ABI has the word at the base of `fs` hold the base itself (ELF Handling For Thread-Local
/// Storage, section 3.4.6), so that code can compute with it.
fn reads_thread_pointer(instruction: &Instruction) -> bool {
    instruction.op1_kind() == OpKind::Memory
        && instruction.memory_segment() == Name::FS
        && instruction.memory_base() == Name::None
        && instruction.memory_index() == Name::None
        && instruction.memory_displacement64() == 0
        && instruction.code_size() == CodeSize::Code64
}

pub(super) fn writes(access: OpAccess) -> bool {
    matches!(
        access,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
    )
}
