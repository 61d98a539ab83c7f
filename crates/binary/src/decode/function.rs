//! Where the blocks of a function begin.

use hitm_model::{Svma, SvmaRange};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};

use super::block::read_block;
use super::{Block, Code, DecodeError};

/// A function and what its branches say about where control can enter.
#[derive(Clone, Debug)]
pub struct Function<'a> {
    code: Code<'a>,
    /// Addresses inside that a branch goes to, in order.
    targets: Vec<u64>,
    /// Whether every way into the middle of the function is in `targets`.
    entries_known: bool,
    /// Whether nothing in it can set the direction flag; the ABI has it clear at every call.
    upwards: bool,
}

impl<'a> Function<'a> {
    /// Reads all instructions once.
    ///
    /// Control can enter in the middle where a branch of the function goes to. An indirect jump can go anywhere, and
    /// where there are bytes that are no instruction, or a branch into the middle of one, nothing is sure: for a
    /// function with one of these, blocks begin at the instruction pointer. A jump through a fixed word of memory (`jmp [rip+x]`) leaves the function: it is how
    /// tail calls into other libraries are made.
    #[must_use]
    pub fn new(code: Code<'a>) -> Self {
        let mut function = Self {
            code,
            targets: Vec::new(),
            entries_known: true,
            upwards: true,
        };
        let mut starts = Starts::new(code.bytes.len());
        let mut decoder = decoder(code.bytes, code.start);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            starts.add(decoder.position());
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
                _ => {}
            }
            match instruction.flow_control() {
                FlowControl::Next => {}
                FlowControl::IndirectBranch => {
                    function.entries_known &= instruction.is_ip_rel_memory_operand();
                }
                _ => function.targets.extend(
                    branch_target(&instruction)
                        .filter(|&target| code.range().contains(Svma(target))),
                ),
            }
        }
        function.targets.sort_unstable();
        function.targets.dedup();
        function.entries_known &= function.targets.iter().all(|&target| {
            Svma(target)
                .offset_from(code.start)
                .is_some_and(|offset| starts.contains(offset as usize))
        });
        function
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
        let range = self.code.range();
        let decoder = decoder(other.bytes, other.start);
        self.targets.extend(
            decoder
                .into_iter()
                .filter(|instruction| instruction.flow_control() != FlowControl::Next)
                .filter_map(|instruction| branch_target(&instruction))
                .filter(|&target| range.contains(Svma(target))),
        );
        self.targets.sort_unstable();
        self.targets.dedup();
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

/// The offsets at which instructions begin.
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

    fn contains(&self, offset: usize) -> bool {
        self.0
            .get(offset / 64)
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
