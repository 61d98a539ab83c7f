//! The functions of the C library that the agent stands in front of.
//!
//! `pthread_create` and `thrd_create`, so that a new thread gets its timer; `sigaction` and `signal`, so that the agent
//! gives its signal up if the program wants it; the functions that block signals, so that the agent's own stays
//! deliverable: pending, it would come out of the program's `sigwait`. Without a channel all of them only pass on.

use core::{
    ffi::{CStr, c_int, c_void},
    mem,
    sync::atomic::{AtomicPtr, Ordering},
};

use libc::{pthread_attr_t, pthread_t, sighandler_t, sigset_t};

use crate::{
    channel::Channel,
    handler, process,
    threads::{self, Slot},
};

/// A function of the C library, found when it is first wanted.
#[derive(Debug)]
struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            address: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// Its address, if the C library has it.
    fn find(&self) -> Option<*mut c_void> {
        let mut address = self.address.load(Ordering::Relaxed);
        if address.is_null() {
            // SAFETY: the name ends in a zero byte.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.address.store(address, Ordering::Relaxed);
        }
        (!address.is_null()).then_some(address)
    }
}

type Create =
    unsafe extern "C" fn(*mut pthread_t, *const pthread_attr_t, usize, *mut c_void) -> c_int;
type CreateC11 = unsafe extern "C" fn(*mut c_void, usize, *mut c_void) -> c_int;
type Sigaction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
type Mask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;

// A new thread starts here: rdi is its place. It leaves no frame of ours on its stack.
core::arch::global_asm!(
    ".pushsection .text.hitm_agent_thread_start,\"ax\",@progbits",
    ".p2align 4",
    ".hidden hitm_agent_thread_start",
    ".globl hitm_agent_thread_start",
    ".type hitm_agent_thread_start,@function",
    "hitm_agent_thread_start:",
    ".cfi_startproc",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "call {begin}",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "mov rdi, rdx",
    "jmp rax",
    ".cfi_endproc",
    ".size hitm_agent_thread_start, . - hitm_agent_thread_start",
    ".popsection",
    begin = sym begin,
);

unsafe extern "C" {
    fn hitm_agent_thread_start();
}

/// Two words, returned in `rax` and `rdx` (System V ABI for AMD64, section 3.2.3).
#[repr(C)]
#[derive(Debug)]
struct Start {
    function: usize,
    argument: usize,
}

unsafe extern "C" fn begin(slot: *const Slot) -> Start {
    let errno = process::Errno::save();
    // SAFETY: it is the place that the thread was made with; places are static.
    let slot = unsafe { &*slot };
    let (function, argument) = threads::begin(slot);
    errno.restore();
    Start { function, argument }
}

/// A place for a thread that is about to be made.
fn place(start: usize, argument: *mut c_void) -> Option<&'static Slot> {
    let channel = Channel::get()?;
    if handler::signal().is_none() || !process::is_this() {
        return None;
    }
    let Some(slot) = Slot::claim() else {
        channel
            .header()
            .agents
            .unsampled
            .fetch_add(1, Ordering::Relaxed);
        return None;
    };
    slot.set_start(start, argument);
    Some(slot)
}

/// Calls `create` for a thread that gets its place first, or for the program's own function where there is none.
fn create(
    start: usize,
    argument: *mut c_void,
    success: c_int,
    create: impl Fn(usize, *mut c_void) -> c_int,
) -> c_int {
    let Some(slot) = place(start, argument) else {
        return create(start, argument);
    };
    let slot_pointer = core::ptr::from_ref(slot).cast_mut().cast();
    let result = create(hitm_agent_thread_start as *const () as usize, slot_pointer);
    if result != success {
        slot.release();
    }
    result
}

/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: usize,
    argument: *mut c_void,
) -> c_int {
    static REAL: Real = Real::new(c"pthread_create");
    let Some(real) = REAL.find() else {
        return libc::EAGAIN;
    };
    // SAFETY: the C library's function has this type.
    let real = unsafe { mem::transmute::<*mut c_void, Create>(real) };
    create(start, argument, 0, |start, argument| {
        // SAFETY: the caller's arguments, or a start function that calls the caller's.
        unsafe { real(thread, attributes, start, argument) }
    })
}

/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(
    thread: *mut c_void,
    start: usize,
    argument: *mut c_void,
) -> c_int {
    static REAL: Real = Real::new(c"thrd_create");
    const THRD_ERROR: c_int = 2;
    let Some(real) = REAL.find() else {
        return THRD_ERROR;
    };
    // SAFETY: the C library's function has this type.
    let real = unsafe { mem::transmute::<*mut c_void, CreateC11>(real) };
    create(start, argument, 0, |start, argument| {
        // SAFETY: the caller's arguments, or a start function that calls the caller's.
        unsafe { real(thread, start, argument) }
    })
}

/// The C library's `sigaction`.
///
/// # Safety
/// As for `sigaction`.
pub(crate) unsafe fn real_sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    static REAL: Real = Real::new(c"sigaction");
    let Some(real) = REAL.find() else { return -1 };
    // SAFETY: the C library's function has this type.
    let real = unsafe { mem::transmute::<*mut c_void, Sigaction>(real) };
    // SAFETY: the caller vouches for the arguments.
    unsafe { real(signal, new, old) }
}

/// What to do about a new action for a signal.
#[derive(PartialEq, Eq)]
enum Taken {
    /// It is not the agent's signal, or was given up just now.
    PassOn,
    /// The program sets the agent's signal to what it thinks it is, or lets it be ignored, as those do that reset all
    /// signals. Nobody sends it, so pretending is enough.
    Pretend,
}

/// Before the program sets an action for `signal`.
fn yield_signal(taken: c_int, action: sighandler_t) -> Taken {
    if handler::signal() != Some(taken) || !process::is_this() {
        return Taken::PassOn;
    }
    if action == libc::SIG_DFL || action == libc::SIG_IGN {
        return Taken::Pretend;
    }
    threads::back_off();
    // What the program reads back as the former action is what was there before the agent.
    // SAFETY: all zeros is a valid sigaction: the default.
    let default: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: both point to what the call wants.
    unsafe { real_sigaction(taken, &raw const default, core::ptr::null_mut()) };
    Taken::PassOn
}

/// As in the C library, but the agent's signal is given up first.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: it is null, or the caller's action.
    let action = unsafe { new.as_ref() }.map(|new| new.sa_sigaction);
    if let Some(action) = action
        && yield_signal(signal, action) == Taken::Pretend
    {
        if !old.is_null() {
            // SAFETY: all zeros is a valid sigaction: the default.
            let default = unsafe { mem::zeroed() };
            // SAFETY: the caller wants the former action there.
            unsafe { old.write(default) };
        }
        return 0;
    }
    // SAFETY: the caller's arguments.
    unsafe { real_sigaction(signal, new, old) }
}

/// As in the C library, but the agent's signal is given up first.
#[unsafe(no_mangle)]
unsafe extern "C" fn signal(signal: c_int, action: sighandler_t) -> sighandler_t {
    static REAL: Real = Real::new(c"signal");
    let Some(real) = REAL.find() else {
        return libc::SIG_ERR;
    };
    if yield_signal(signal, action) == Taken::Pretend {
        return libc::SIG_DFL;
    }
    // SAFETY: the C library's function has this type.
    let real = unsafe { mem::transmute::<*mut c_void, Signal>(real) };
    // SAFETY: the caller's arguments.
    unsafe { real(signal, action) }
}

/// Calls `real` with the agent's signal taken out of a set that is to be blocked.
unsafe fn mask(real: *mut c_void, how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    // SAFETY: the C library's functions have this type.
    let real = unsafe { mem::transmute::<*mut c_void, Mask>(real) };
    let blocks = how == libc::SIG_BLOCK || how == libc::SIG_SETMASK;
    // SAFETY: it is null, or the caller's set.
    let wanted = unsafe { set.as_ref() };
    let (Some(wanted), Some(ours), true) = (wanted, handler::signal(), blocks) else {
        // SAFETY: the caller's arguments.
        return unsafe { real(how, set, old) };
    };
    let mut reduced = *wanted;
    // SAFETY: it changes the copy.
    unsafe { libc::sigdelset(&raw mut reduced, ours) };
    // SAFETY: the caller's arguments, and a set of ours.
    unsafe { real(how, &raw const reduced, old) }
}

/// As in the C library, but the agent's signal is never blocked.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    set: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    static REAL: Real = Real::new(c"pthread_sigmask");
    let Some(real) = REAL.find() else {
        return libc::ENOSYS;
    };
    // SAFETY: the caller's arguments.
    unsafe { mask(real, how, set, old) }
}

/// As in the C library, but the agent's signal is never blocked.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigprocmask(how: c_int, set: *const sigset_t, old: *mut sigset_t) -> c_int {
    static REAL: Real = Real::new(c"sigprocmask");
    let Some(real) = REAL.find() else { return -1 };
    // SAFETY: the caller's arguments.
    unsafe { mask(real, how, set, old) }
}
