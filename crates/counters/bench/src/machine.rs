//! Where threads run and what they get: the few system calls of the benchmark.

use std::io::Error;
use std::mem::MaybeUninit;
use std::time::Duration;

use anyhow::Result;

/// The processors that this process may use.
pub fn cpus() -> Result<Vec<usize>> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the call writes at most the given size of the set.
    let result =
        unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    if result != 0 {
        return Err(Error::last_os_error().into());
    }
    // SAFETY: all zeros is a valid set, and the call filled it.
    let set = unsafe { set.assume_init() };
    // SAFETY: the numbers are below the size of the set.
    Ok((0..1024)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}

/// Keeps the calling thread on one processor; best effort.
pub fn pin(cpu: usize) {
    // SAFETY: all zeros is an empty set.
    let mut set: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
    // SAFETY: the number came from such a set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is of the given size.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
}

/// Processor time of the calling thread.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

/// Page faults of the calling thread that needed no disk.
pub fn minor_faults() -> i64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call writes one rusage.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all zeros is valid, and the call filled it.
    unsafe { usage.assume_init() }.ru_minflt
}
