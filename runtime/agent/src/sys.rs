//! System calls without the C library, so that `errno` is never touched and nothing is allocated.

use core::{arch::asm, ffi::c_int};

/// A number that the kernel returned instead of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Errno(#[expect(dead_code, reason = "for a debugger")] pub(crate) c_int);

/// One system call.
///
/// # Safety
/// The arguments must be what the call with this number wants.
unsafe fn call(number: i64, arguments: [usize; 4]) -> Result<usize, Errno> {
    let [a, b, c, d] = arguments;
    let result: isize;
    // SAFETY: the caller vouches for the arguments; `syscall` clobbers rcx and r11 only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    match result {
        -4095..0 => Err(Errno(-result as c_int)),
        _ => Ok(result as usize),
    }
}

/// The calling thread's number.
pub(crate) fn gettid() -> u32 {
    // SAFETY: it takes no arguments.
    unsafe { call(libc::SYS_gettid, [0; 4]) }.map_or(0, |tid| tid as u32)
}

/// The calling process's number.
pub(crate) fn getpid() -> u32 {
    // SAFETY: it takes no arguments.
    unsafe { call(libc::SYS_getpid, [0; 4]) }.map_or(0, |pid| pid as u32)
}

/// The number of the process that made this one.
pub(crate) fn getppid() -> u32 {
    // SAFETY: it takes no arguments.
    unsafe { call(libc::SYS_getppid, [0; 4]) }.map_or(0, |pid| pid as u32)
}

/// The calling thread's name, as two words.
pub(crate) fn name() -> [u64; 2] {
    let mut name = [0_u64; 2];
    let arguments = [libc::PR_GET_NAME as usize, (&raw mut name) as usize, 0, 0];
    // SAFETY: PR_GET_NAME writes 16 bytes, which `name` has.
    let _ = unsafe { call(libc::SYS_prctl, arguments) };
    name
}

/// Makes a timer on the calling thread's processor time that sends it `signal` with `value`.
pub(crate) fn timer_create(signal: c_int, tid: u32, value: usize) -> Result<c_int, Errno> {
    // SAFETY: all zeros is a valid sigevent.
    let mut event: libc::sigevent = unsafe { core::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = signal;
    event.sigev_value = libc::sigval {
        sival_ptr: value as *mut _,
    };
    event.sigev_notify_thread_id = tid as c_int;
    let mut id: c_int = -1;
    let arguments = [
        libc::CLOCK_THREAD_CPUTIME_ID as usize,
        (&raw const event) as usize,
        (&raw mut id) as usize,
        0,
    ];
    // SAFETY: the kernel reads a sigevent and writes a number.
    unsafe { call(libc::SYS_timer_create, arguments) }?;
    Ok(id)
}

/// Lets a timer fire every `period` nanoseconds; 0 stops it.
pub(crate) fn timer_settime(id: c_int, period: u64) -> Result<(), Errno> {
    let period = libc::timespec {
        tv_sec: (period / 1_000_000_000) as i64,
        tv_nsec: (period % 1_000_000_000) as i64,
    };
    let spec = libc::itimerspec {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: the kernel reads an itimerspec; the old value is not asked for.
    unsafe {
        call(
            libc::SYS_timer_settime,
            [id as usize, 0, (&raw const spec) as usize, 0],
        )
    }?;
    Ok(())
}

/// Removes a timer.
pub(crate) fn timer_delete(id: c_int) {
    // SAFETY: it takes a number; an unknown one is an error.
    let _ = unsafe { call(libc::SYS_timer_delete, [id as usize, 0, 0, 0]) };
}

/// Takes `signal` out of the calling thread's mask of blocked ones.
pub(crate) fn unblock(signal: c_int) {
    let set: u64 = 1 << (signal - 1);
    let arguments = [libc::SIG_UNBLOCK as usize, (&raw const set) as usize, 0, 8];
    // SAFETY: the kernel reads a set of 8 bytes; the old one is not asked for.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, arguments) };
}

/// A file that is closed when it goes.
#[derive(Debug)]
pub(crate) struct File(usize);

impl File {
    /// Opens a path that ends in a zero byte.
    ///
    /// # Safety
    /// `path` must point to a zero-terminated string.
    pub(crate) unsafe fn open(path: *const libc::c_char, flags: c_int) -> Result<Self, Errno> {
        let flags = (flags | libc::O_CLOEXEC) as usize;
        // SAFETY: the caller vouches for the path.
        unsafe { call(libc::SYS_open, [path as usize, flags, 0, 0]) }.map(Self)
    }

    /// Its descriptor.
    pub(crate) const fn descriptor(&self) -> c_int {
        self.0 as c_int
    }

    /// Reads into `buffer`; 0 at the end or at an error.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> usize {
        let arguments = [self.0, buffer.as_mut_ptr() as usize, buffer.len(), 0];
        // SAFETY: the kernel writes at most the buffer's length.
        unsafe { call(libc::SYS_read, arguments) }.unwrap_or(0)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        let _ = unsafe { call(libc::SYS_close, [self.0, 0, 0, 0]) };
    }
}

/// `CLOCK_MONOTONIC`, by the vDSO where the machine has a usable clock.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: it writes a timespec, is safe in a signal handler, and cannot fail for this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64)
        .wrapping_mul(1_000_000_000)
        .wrapping_add(time.tv_nsec as u64)
}

/// The processor that this runs on.
pub(crate) fn cpu() -> u32 {
    // SAFETY: it takes nothing; the C library reads the vDSO or the rseq area.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}

/// The base of the calling thread's `fs` segment: the System V ABI keeps it at `fs:0`.
pub(crate) fn fs_base() -> u64 {
    let base: u64;
    // SAFETY: every thread of a C library on x86-64 has its thread-control block's address there.
    unsafe {
        asm!("mov {}, fs:[0]", out(reg) base, options(nostack, preserves_flags, readonly));
    }
    base
}
