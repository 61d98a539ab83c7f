//! The sampler that a program loads by `LD_PRELOAD` where `perf_event_open` is refused.
//!
//! Every thread gets a timer on its own processor time. When it fires the thread is running, the kernel delivers a
//! real-time signal on the way back to user mode, and the handler copies the registers into a ring that the recorder
//! reads. A thread that sleeps uses no processor time, so it is neither sampled nor disturbed: `docs/preload.md` argues
//! why nothing else would do.
//!
//! - `layout`: the bytes shared with the recorder
//! - `sys`, `channel`: system calls without `errno`, rings without locks
//! - `handler`: the signal, and who else may want it
//! - `threads`: a place and a timer per thread
//! - `process`: loading, forking, exiting
//! - `interpose`: the functions of the C library that this library stands in front of
//!
//! Nothing here may panic, and nothing the handler reaches may allocate, lock or block.

#![no_std]

mod channel;
mod handler;
mod interpose;
mod layout;
mod process;
mod sys;
mod threads;

/// There is no code that panics; were there any, the program would be better off stopped than damaged.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: it takes nothing and does not return.
    unsafe { libc::abort() }
}
