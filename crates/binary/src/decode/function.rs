//! Where the blocks of a function begin.

use hitm_model::{Svma, SvmaRange};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use super::block::read_block;
use super::tables::{Tables, classify};
use super::{Block, Code, DecodeError};

/// A function and what its branches say about where control can enter.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    code: Code<'a>,
    /// Addresses inside that a branch goes to, in order.
    targets: Vec<u64>,
    starts: Starts,
    /// Whether every way into the middle of the function is in `targets`.
    entries_known: bool,
    /// Whether nothing in it can set the direction flag; the ABI has it clear at every call.
    upwards: bool,
}

impl<'a> Function<'a> {
    /// Reads all instructions once.
    ///
    /// Control can enter in the middle where a branch of the function goes to. Without the file's constant data it is
    /// not known where jump tables lead: see [`Function::with_tables`].
    #[must_use]
    pub fn new(code: Code<'a>) -> Self {
        Self::with_tables(code, |_| None)
    }

    /// Reads all instructions once, and the jump tables that they use; `memory` gives the file's constant bytes from
    /// an address to the end of its section.
    ///
    /// Where it is not known that all ways into the middle are seen, blocks begin at the instruction pointer: in a
    /// function with an indirect jump that neither uses such a table nor leaves the function, with bytes that are no
    /// instruction, or with a branch into the middle of one.
    #[must_use]
    pub fn with_tables<'d>(code: Code<'a>, memory: impl Fn(Svma) -> Option<&'d [u8]>) -> Self {
        let mut function = Self {
            code,
            targets: Vec::new(),
            starts: Starts::new(code.bytes.len()),
            entries_known: true,
            upwards: true,
        };
        let mut tables = Tables::new();
        let mut jumps = Vec::new();
        let mut run = code.start;
        let mut decoder = decoder(code.bytes, code.start);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            function.starts.add(decoder.position());
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                function.entries_known = false;
                function.upwards = false;
                break;
            }
            match instruction.mnemonic() {
                Mnemonic::Std | Mnemonic::Popf | Mnemonic::Popfd | Mnemonic::Popfq => {
                    function.upwards = false;
                }
                _ => tables.see(&instruction),
            }
            match instruction.flow_control() {
                FlowControl::Next => continue,
                FlowControl::IndirectBranch => jumps.push(classify(code, run, &instruction)),
                _ => function.targets.extend(branch_target(&instruction)),
            }
            run = Svma(instruction.next_ip());
        }
        function.admit_targets();
        jumps.sort_unstable();
        jumps.dedup();
        for jump in jumps {
            match tables.targets(jump, code, &memory) {
                // What is no instruction came from what is no table.
                Some(targets) => function.targets.extend(
                    targets
                        .into_iter()
                        .filter(|&target| function.starts.contains(code, target)),
                ),
                None => function.entries_known = false,
            }
        }
        function.admit_targets();
        function
    }

    /// Keeps the targets inside the function, in order.
    fn admit_targets(&mut self) {
        let range = self.code.range();
        self.targets.retain(|&target| range.contains(Svma(target)));
        self.targets.sort_unstable();
        self.targets.dedup();
        let mut targets = self.targets.iter();
        self.entries_known &= targets.all(|&target| self.starts.contains(self.code, target));
    }

    /// The function's bytes.
    #[must_use]
    pub const fn code(&self) -> Code<'a> {
        self.code
    }

    /// Adds the ways into this function from another piece of code, such as its part for unlikely cases, which
    /// compilers put elsewhere.
    #[must_use]
    pub fn entered_from(mut self, other: Code<'_>) -> Self {
        for instruction in &mut decoder(other.bytes, other.start) {
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::IndirectBranch if !instruction.is_ip_rel_memory_operand() => {
                    self.entries_known = false;
                }
                _ => self.targets.extend(branch_target(&instruction)),
            }
        }
        self.admit_targets();
        self
    }

    /// What is certainly executed around one instruction pointer in it.
    ///
    /// # Errors
    ///
    /// If `ip` is not in the function, or is not an instruction.
    pub fn block_at(&self, ip: Svma) -> Result<Block, DecodeError> {
        let range = self.code.range();
        if !range.contains(ip) {
            return Err(DecodeError::Outside { ip, range });
        }
        let leader = if self.entries_known {
            let n_before = self.targets.partition_point(|&target| target <= ip.0);
            match n_before.checked_sub(1) {
                Some(at) => Svma(self.targets[at]),
                None => self.code.start,
            }
        } else {
            ip
        };
        let code = self.code.from(leader).unwrap_or(self.code);
        read_block(code, ip, self.upwards)
    }
}

impl Code<'_> {
    /// Where it is.
    #[must_use]
    pub const fn range(&self) -> SvmaRange {
        SvmaRange::new(self.start, self.start.wrapping_add(self.bytes.len() as u64))
    }

    /// The part from `at` on.
    pub(super) fn from(&self, at: Svma) -> Option<Self> {
        let offset = usize::try_from(at.offset_from(self.start)?).ok()?;
        Some(Self {
            start: at,
            bytes: self.bytes.get(offset..)?,
        })
    }
}

/// The offsets at which instructions begin, a bit each.
#[derive(Clone, Debug)]
struct Starts(Vec<u64>);

impl Starts {
    fn new(n_bytes: usize) -> Self {
        Self(vec![0; n_bytes.div_ceil(64)])
    }

    fn add(&mut self, offset: usize) {
        if let Some(word) = self.0.get_mut(offset / 64) {
            *word |= 1 << (offset % 64);
        }
    }

    fn contains(&self, code: Code<'_>, address: u64) -> bool {
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

fn branch_target(instruction: &Instruction) -> Option<u64> {
    (instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64)
        .then(|| instruction.near_branch64())
}
