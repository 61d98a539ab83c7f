//! The restartable sequence: read the processor's number, add to its block; if the thread is moved or a signal comes in
//! between, the kernel sends it back to the start.
//!
//! glibc 2.35 and later register each thread's area with the kernel and say where it is (`__rseq_offset`, from the thread
//! pointer). Layouts and the signature are those of the kernel's `include/uapi/linux/rseq.h` and of librseq; older
//! libraries have no such symbols, and then there is nothing to find.

use core::arch::asm;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};

unsafe extern "C" {
    /// From the C library that std links anyway.
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Where a thread's area is, from its thread pointer, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    offset: isize,
}

/// `struct rseq`: the processor's number, unless the thread is not registered.
const CPU_ID: usize = 4;
/// `struct rseq`: the descriptor of the sequence that the thread is in.
const RSEQ_CS: usize = 8;

impl Area {
    /// Where the C library put it, if it did.
    pub(super) fn find() -> Option<Self> {
        if cfg!(miri) {
            return None;
        }
        let size: *const c_uint = symbol(c"__rseq_size")?.cast();
        // SAFETY: the C library defines this symbol as an `unsigned int` that does not change once threads run.
        if unsafe { size.read() } == 0 {
            // Switched off, by a tunable or because the kernel does not have it.
            return None;
        }
        let offset: *const isize = symbol(c"__rseq_offset")?.cast();
        // SAFETY: the C library defines this symbol as a `ptrdiff_t` that does not change once threads run.
        let offset = unsafe { offset.read() };
        Some(Self { offset })
    }
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    let default = core::ptr::null_mut();
    // SAFETY: the name is a C string; the default handle searches what is loaded.
    let address = unsafe { dlsym(default, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// Adds `n` to the word at `base` in the block of the processor that runs this; blocks are `stride` bytes apart.
///
/// `false`, with nothing done, if this thread has no area or the processor's number is not below `cpus`.
///
/// # Safety
/// `base` plus `stride` times anything below `cpus` is a word that lives and that is only written by this function.
#[inline(always)]
pub(super) unsafe fn add(area: Area, base: *const u8, stride: usize, cpus: u32, n: u64) -> bool {
    let outcome: u64;
    // SAFETY: the thread pointer is at `fs:0` in this ABI and the area at its offset is the kernel's `struct rseq` of this
    // thread, whose `rseq_cs` is for its thread to set. From 22 to 23 there is one store, the last instruction, so that a
    // restart repeats nothing. The caller vouches for the word. The signature before the abort label is the one that glibc
    // registers on x86.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "21:",
            ".long 0, 0",
            ".quad 22f, 23f - 22f, 24f",
            ".popsection",
            "mov {area}, qword ptr fs:[0]",
            "add {area}, {offset}",
            "26:",
            "lea {cpu}, [rip + 21b]",
            "mov qword ptr [{area} + {rseq_cs}], {cpu}",
            "22:",
            "mov {cpu:e}, dword ptr [{area} + {cpu_id}]",
            "cmp {cpu:e}, {cpus:e}",
            "jae 25f",
            "imul {cpu}, {stride}",
            "add qword ptr [{base} + {cpu}], {n}",
            "23:",
            "xor {cpu:e}, {cpu:e}",
            "25:",
            // The descriptor may be in a library that is unloaded later.
            "mov qword ptr [{area} + {rseq_cs}], 0",
            ".pushsection __rseq_failure, \"ax\"",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "24:",
            "jmp 26b",
            ".popsection",
            area = out(reg) _,
            cpu = out(reg) outcome,
            offset = in(reg) area.offset,
            cpus = in(reg) cpus,
            stride = in(reg) stride,
            base = in(reg) base,
            n = in(reg) n,
            rseq_cs = const RSEQ_CS,
            cpu_id = const CPU_ID,
            options(nostack),
        );
    }
    outcome == 0
}

// The C types that the symbols are read as.
const _: () = assert!(size_of::<c_int>() == 4 && size_of::<isize>() == 8);
