//! A thread's call stack, from a copy of its stack and the unwind tables in its process's memory.
//!
//! # Caveats
//! Of a sleeping thread only the stack pointer and the instruction pointer are known. Its frame pointer becomes known
//! in the first frame below which it was saved; a frame that is found through it before that ends the unwinding. A
//! running thread goes on while its stack is copied: its inner frames may be mixed up then, its outer ones are not.

use framehop::{
    ExplicitModuleSectionInfo, FrameAddress, Unwinder as _,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use hitm_model::{Avma, AvmaRange, Pid, SpaceId, StackFrame};

use super::{
    code::CodeCache,
    module::{self, Module},
    space::Mappings,
    world::World,
};

/// So much of a stack is copied.
const MOST_STACK: u64 = 256 << 10;

/// Deeper stacks are cut off.
const MOST_FRAMES: usize = 256;

/// Modules with larger unwind tables are not unwound through.
const MOST_TABLES: u64 = 8 << 20;

/// Stands for a frame pointer that is not known. No address of a process looks like it.
const UNKNOWN: u64 = 0x8000_0000_0000_0001;

/// Where unwinding starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Start {
    pub(crate) ip: Avma,
    pub(crate) sp: Avma,
    pub(crate) fp: Option<Avma>,
}

/// The frames of a thread, innermost first, as far as they can be found. `stack` is the mapping that holds them.
pub(crate) fn unwind<W: World>(
    world: &W,
    code: &mut CodeCache,
    process: (SpaceId, Pid),
    mappings: &Mappings,
    start: Start,
    stack: AvmaRange,
) -> Vec<StackFrame> {
    let copy = Copied::read(world, process.1, start.sp, stack);
    let mut read_stack = |address| copy.word(Avma(address)).ok_or(());
    let mut unwinder = UnwinderX86_64::<Vec<u8>>::new();
    let mut cache = CacheX86_64::<framehop::MayAllocateDuringUnwind>::new();
    let mut added: Vec<Avma> = Vec::new();
    let fp = start.fp.map_or(UNKNOWN, |fp| fp.0);
    let mut registers = UnwindRegsX86_64::new(start.ip.0, start.sp.0, fp);
    let mut address = FrameAddress::from_instruction_pointer(start.ip.0);
    let mut frames = Vec::new();
    while frames.len() < MOST_FRAMES {
        // A call may be the last instruction of a module.
        let Some(module) =
            code.module(world, process, mappings, Avma(address.address_for_lookup()))
        else {
            break;
        };
        if !added.contains(&module.range.start) {
            added.push(module.range.start);
            let Some(tables) = tables(world, process.1, &module) else {
                break;
            };
            unwinder.add_module(tables);
        }
        let fp = registers.bp();
        let caller = unwinder.unwind_frame(address, &mut registers, &mut cache, &mut read_stack);
        let Ok(Some(caller)) = caller else {
            break;
        };
        frames.push(StackFrame {
            ip: Avma(address.address()),
            cfa: Avma(registers.sp()),
            fp: Avma(if fp == UNKNOWN { 0 } else { fp }),
            is_return: address.is_return_address(),
        });
        let Some(caller) = FrameAddress::from_return_address(caller) else {
            break;
        };
        address = caller;
    }
    frames
}

/// The unwind tables of a module, at addresses relative to its start.
fn tables<W: World>(world: &W, pid: Pid, module: &Module) -> Option<framehop::Module<Vec<u8>>> {
    let read = |range: AvmaRange| {
        let len = range.len();
        if len > MOST_TABLES {
            return None;
        }
        module::read(world, pid, range.start, len as usize)
    };
    let start = module.range.start;
    let relative = |range: AvmaRange| range.start.0 - start.0..range.end.0 - start.0;
    let (header, frames) = (module.header(), module.frames);
    let info = ExplicitModuleSectionInfo {
        base_svma: 0,
        eh_frame_hdr_svma: Some(relative(header)),
        eh_frame_hdr: Some(read(header)?),
        eh_frame_svma: Some(relative(frames)),
        eh_frame: Some(read(frames)?),
        ..Default::default()
    };
    Some(framehop::Module::new(
        String::new(),
        start.0..module.range.end.0,
        start.0,
        info,
    ))
}

/// The used part of a stack.
struct Copied {
    start: Avma,
    bytes: Vec<u8>,
}

impl Copied {
    fn read<W: World>(world: &W, pid: Pid, sp: Avma, stack: AvmaRange) -> Self {
        let len = stack.end.0.saturating_sub(sp.0).min(MOST_STACK);
        let mut bytes = vec![0; len as usize];
        let len = world.read(pid, sp, &mut bytes);
        bytes.truncate(len);
        Self { start: sp, bytes }
    }

    fn word(&self, at: Avma) -> Option<u64> {
        let offset = usize::try_from(at.offset_from(self.start)?).ok()?;
        module::u64_at(&self.bytes, offset)
    }
}
