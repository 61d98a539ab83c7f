//! The registers of a sleeping thread, by stopping it for an instant.
//!
//! `/proc` tells a sleeping thread's stack and instruction pointers only, and code that is built with frame pointers
//! cannot be unwound by these.
//!
//! # What the program notices
//! Nothing, but for some microseconds. A stop wakes the thread from its system call, and the kernel has it called again
//! before any of the program's instructions, as long as the call asks for that: the same as for SIGSTOP and SIGCONT
//! (signal(7), "Interruption of system calls and library functions by stop signals"). Those that are known to:
//!
//! - `futex` with `FUTEX_WAIT` or `FUTEX_WAIT_BITSET` returns `-ERESTARTSYS`, or, with a timeout, `-ERESTART_RESTARTBLOCK`
//!   with the time at which it ends (`futex_wait` in the kernel's `kernel/futex/waitwake.c`); it compares the word
//!   again, which is what a waker changes first. The operations for priority inheritance have other rules.
//! - `nanosleep` and `clock_nanosleep` return `-ERESTART_RESTARTBLOCK`, likewise, or to a fixed time `-ERESTARTNOHAND`
//!   (`hrtimer_nanosleep` in `kernel/time/hrtimer.c`).
//!
//! `arch_do_signal_or_restart` (`arch/x86/kernel/signal.c`) turns these into a new call, unless a signal handler is to
//! run: that of a signal of the program's own. Others (`epoll_wait`, `sigtimedwait`, `semop`, sockets with a timeout)
//! fail with EINTR, so in any other call, also in `restart_syscall`, a thread is left alone.
//!
//! What is left: a thread is looked at once more just before the stop, and one that wakes and enters another call in
//! the microseconds between is as if it had been stopped by hand; and a timer on the thread's processor time that
//! is just due may strike while it is awake.
//!
//! # What remains of it
//! The thread is seized without options and by a thread of our own that ends right afterwards. At the end of the
//! tracing thread, also when it is killed, the kernel lets go of what it traces, wherever that is, with the signal
//! that it may just be given (`exit_ptrace` in `kernel/ptrace.c`). Only stops are waited for, and they are left to be
//! waited for again: the end of a process is reported to whom it was before.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use hitm_model::{Avma, Pid, Register, Registers, Tid};
use nix::sys::{
    ptrace,
    wait::{Id, WaitPidFlag, WaitStatus, waitid},
};

/// A sleeping thread stops at once, unless nobody lets it run.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
const LOOK_EVERY: Duration = Duration::from_micros(50);

const FUTEX_OPERATION: u64 = !((libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME) as u64);
const FUTEX_WAIT: u64 = libc::FUTEX_WAIT as u64;
const FUTEX_WAIT_BITSET: u64 = libc::FUTEX_WAIT_BITSET as u64;

/// All registers of a thread that was stopped for an instant, and its `fs` base.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// The registers as they will be when it goes on, but for the result of its system call.
    pub registers: Registers,
    /// The base of the segment `fs`.
    pub fs_base: Avma,
}

/// Stops a thread for an instant, if it sleeps where it does not notice; `None` also if that is not permitted.
pub(super) fn registers(pid: Pid, tid: Tid) -> Option<Stopped> {
    if !is_asleep(pid, tid) {
        return None;
    }
    let tracer = thread::Builder::new().name("hitm-registers".into());
    let stopped = tracer.spawn(move || stop(pid, tid)).ok()?.join().ok()?;
    // A thread can be joined a moment before the kernel lets go of what it traced. Whoever waits for the program's end
    // until then would take a stop away, and the signal with it.
    let joined = Instant::now();
    while is_traced_by_us(pid, tid) && joined.elapsed() < LONGEST_WAIT {
        thread::sleep(LOOK_EVERY);
    }
    stopped
}

fn is_traced_by_us(pid: Pid, tid: Tid) -> bool {
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")) else {
        return false;
    };
    let tracer = status
        .lines()
        .find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim().parse() == Ok(std::process::id()))
}

/// To be called by a thread that ends then.
fn stop(pid: Pid, tid: Tid) -> Option<Stopped> {
    let thread = nix::unistd::Pid::from_raw(tid.0.cast_signed());
    // Refused also where a debugger has it already.
    ptrace::seize(thread, ptrace::Options::empty()).ok()?;
    if !is_asleep(pid, tid) {
        return None;
    }
    ptrace::interrupt(thread).ok()?;
    let asked = Instant::now();
    while asked.elapsed() < LONGEST_WAIT {
        let flags = WaitPidFlag::WSTOPPED
            | WaitPidFlag::WNOHANG
            | WaitPidFlag::WNOWAIT
            | WaitPidFlag::__WALL;
        match waitid(Id::Pid(thread), flags).ok()? {
            WaitStatus::StillAlive => thread::sleep(LOOK_EVERY),
            WaitStatus::PtraceEvent(_, _, libc::PTRACE_EVENT_STOP) => {
                let registers = ptrace::getregs(thread).ok();
                // What fails here is done by the kernel when this thread ends.
                let _ = ptrace::detach(thread, None);
                return registers.map(|registers| translate(&registers));
            }
            // A signal of the program's own came first.
            _ => return None,
        }
    }
    None
}

/// Whether a thread is in a system call that the kernel repeats without its noticing.
fn is_asleep(pid: Pid, tid: Tid) -> bool {
    fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall"))
        .is_ok_and(|text| is_repeated(&text).unwrap_or(false))
}

/// `202 0x7f… 0x189 …`: the number of a system call and its arguments.
fn is_repeated(text: &str) -> Option<bool> {
    let mut fields = text.split_whitespace();
    let number: i64 = fields.next()?.parse().ok()?;
    let mut argument = |nth| {
        let digits = fields.nth(nth)?.strip_prefix("0x")?;
        u64::from_str_radix(digits, 16).ok()
    };
    Some(match number {
        libc::SYS_futex => matches!(
            argument(1)? & FUTEX_OPERATION,
            FUTEX_WAIT | FUTEX_WAIT_BITSET
        ),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => true,
        _ => false,
    })
}

fn translate(from: &libc::user_regs_struct) -> Stopped {
    let mut registers = Registers {
        ip: Avma(from.rip),
        ..Registers::default()
    };
    for (register, value) in [
        (Register::Rax, from.rax),
        (Register::Rcx, from.rcx),
        (Register::Rdx, from.rdx),
        (Register::Rbx, from.rbx),
        (Register::Rsp, from.rsp),
        (Register::Rbp, from.rbp),
        (Register::Rsi, from.rsi),
        (Register::Rdi, from.rdi),
        (Register::R8, from.r8),
        (Register::R9, from.r9),
        (Register::R10, from.r10),
        (Register::R11, from.r11),
        (Register::R12, from.r12),
        (Register::R13, from.r13),
        (Register::R14, from.r14),
        (Register::R15, from.r15),
    ] {
        registers.set(register, value);
    }
    Stopped {
        registers,
        fs_base: Avma(from.fs_base),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_that_are_repeated_unnoticed_are_interrupted() {
        for (text, wanted) in [
            (
                "202 0x7f00 0x189 0x2 0x0 0x0 0xffffffff 0x7ffc 0x7f01\n",
                true,
            ),
            ("202 0x7f00 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f01", true),
            ("202 0x7f00 0x0 0x2 0x0 0x0 0x0 0x7ffc 0x7f01", true),
            // FUTEX_LOCK_PI, FUTEX_WAIT_REQUEUE_PI.
            ("202 0x7f00 0x86 0x2 0x0 0x0 0x0 0x7ffc 0x7f01", false),
            ("202 0x7f00 0x8b 0x2 0x0 0x0 0x0 0x7ffc 0x7f01", false),
            ("230 0x0 0x0 0x7ffc 0x7ffc 0x0 0x0 0x7ffc 0x7f01", true),
            // epoll_wait, restart_syscall.
            ("232 0x3 0x7ffc 0x10 0x64 0x0 0x0 0x7ffc 0x7f01", false),
            ("219 0x7f00 0x80 0x2 0x7ffc 0x0 0x0 0x7ffc 0x7f01", false),
            ("-1 0x7ffc 0x7f01", false),
            ("running", false),
            ("202", false),
            ("", false),
        ] {
            assert_eq!(is_repeated(text).unwrap_or(false), wanted, "{text}");
        }
    }
}
