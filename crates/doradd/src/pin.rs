//! Putting the calling thread on one processor.

use std::io;

/// Lets the calling thread run on this processor only.
#[cfg(target_os = "linux")]
pub(crate) fn pin(processor: usize) -> io::Result<()> {
    use nix::sched::{CpuSet, sched_setaffinity};
    let mut set = CpuSet::new();
    set.set(processor)?;
    Ok(sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)?)
}

/// Threads cannot be pinned here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin(_processor: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
