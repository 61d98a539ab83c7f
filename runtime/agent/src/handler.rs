//! The signal handler, and the choice of its signal.
//!
//! A real-time signal rather than `SIGPROF`: programs, language runtimes and other profilers use `SIGPROF` and
//! `setitimer(ITIMER_PROF)` for themselves, and go on working beside this. If the program takes the chosen signal too,
//! the agent gives it up.

use core::{
    ffi::{c_int, c_void},
    ptr,
    sync::atomic::{AtomicI32, Ordering},
};

use crate::{
    channel::Channel,
    interpose,
    layout::{BODY_WORDS, Payload, kind},
    process::Errno,
    sys,
    threads::Slot,
};

/// The signal in use, 0 for none.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// User code in 64-bit mode runs in this segment; 32-bit code in another.
const USER_CS_64: i64 = 0x33;

/// Where `ucontext` keeps the general-purpose registers, in the order of their encoding.
const ENCODING_ORDER: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// The signal in use.
pub(crate) fn signal() -> Option<c_int> {
    match SIGNAL.load(Ordering::Relaxed) {
        0 => None,
        signal => Some(signal),
    }
}

/// Installs the handler for the highest real-time signal that nobody has a handler for. The last two are left out:
/// other tools that live inside programs like them.
pub(crate) fn install() -> Option<c_int> {
    let candidates = (libc::SIGRTMIN()..=libc::SIGRTMAX() - 2).rev();
    let signal = candidates
        .into_iter()
        .find(|&signal| disposition(signal) == Some(libc::SIG_DFL))?;
    // SAFETY: all zeros is a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    // The alternate stack where the program has one, its system calls restarted, and none of its handlers inside ours.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: it writes the set.
    unsafe { libc::sigfillset(&raw mut action.sa_mask) };
    // SAFETY: both point to what the call wants.
    if unsafe { interpose::real_sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
        return None;
    }
    SIGNAL.store(signal, Ordering::Relaxed);
    Some(signal)
}

/// Whether the signal still leads to the handler here. It does not if the program installed a handler of its own by a
/// way that is not seen.
pub(crate) fn is_ours() -> bool {
    signal().is_some_and(|signal| disposition(signal) == Some(handler as *const () as usize))
}

/// Gives the signal up.
pub(crate) fn abandon() -> bool {
    SIGNAL.swap(0, Ordering::Relaxed) != 0
}

/// What happens on `signal` now.
fn disposition(signal: c_int) -> Option<libc::sighandler_t> {
    // SAFETY: all zeros is a valid sigaction.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: both point to what the call wants.
    let result = unsafe { interpose::real_sigaction(signal, ptr::null(), &raw mut action) };
    (result == 0).then_some(action.sa_sigaction)
}

/// What the kernel calls.
unsafe extern "C" fn handler(_: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // The C library's way to the clock and the processor's number sets it where it has to fall back and fails.
    let errno = Errno::save();
    // SAFETY: the kernel passes a siginfo with SA_SIGINFO.
    let info = unsafe { &*info };
    // SAFETY: the kernel passes a ucontext with SA_SIGINFO.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    sample(info, context);
    errno.restore();
}

/// Copies the registers of the interrupted thread into its processor's ring.
fn sample(info: &libc::siginfo_t, context: &libc::ucontext_t) {
    if info.si_code != libc::SI_TIMER {
        return; // somebody sent it by hand
    }
    // SAFETY: the signal of a timer carries the value it was made with.
    let value = unsafe { info.si_value() };
    let (Some(slot), Some(channel)) = (Slot::from_value(value.sival_ptr as usize), Channel::get())
    else {
        return;
    };
    // A signal can outlive its thread's place only on kernels that keep it pending after the timer is deleted.
    let fs_base = sys::fs_base();
    if !slot.belongs_to(fs_base) {
        return;
    }
    if channel.stopped() {
        slot.disarm();
        return;
    }
    let registers = &context.uc_mcontext.gregs;
    let get = |register: c_int| registers.get(register as usize).copied().unwrap_or(0);
    let cpu = sys::cpu();
    if in_system_call(get(libc::REG_RIP), get(libc::REG_RCX)) {
        channel.count_kernel(cpu);
        return;
    }
    if get(libc::REG_CSGSFS) & 0xffff != USER_CS_64 {
        return;
    }
    let mut body = [0; BODY_WORDS];
    let values = [libc::REG_RIP]
        .iter()
        .chain(&ENCODING_ORDER)
        .map(|&register| get(register) as u64);
    for (word, value) in body.iter_mut().zip(values.chain([fs_base])) {
        *word = value;
    }
    let (pid, tid) = slot.numbers();
    let at = sys::now();
    let payload = Payload {
        at,
        pid,
        tid,
        cpu,
        kind: kind::SAMPLE,
        length: 0,
        body,
    };
    if channel.push(&payload) == crate::channel::Pushed::Full && channel.abandoned(at) {
        slot.disarm();
    }
}

/// Whether the tick fell into a system call.
///
/// `syscall` leaves the address of the next instruction in `rcx`, so user code is at `rip == rcx` only right after one.
/// Where the call is restarted `rip` is two bytes back, on the `syscall` itself. Nothing has to be read from the code,
/// which may be mapped for execution only.
const fn in_system_call(rip: i64, rcx: i64) -> bool {
    rip == rcx || rip.wrapping_add(2) == rcx
}
