//! What live tests need of the machine: perf events, and nobody else measuring at the same time.

#![expect(
    unsafe_code,
    reason = "perf_event_open has no safe wrapper, and the test must know"
)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd};

use nix::fcntl::{Flock, FlockArg};
use perf_event_open_sys::{bindings, perf_event_open};

use crate::cache_dir;

/// Whether this process may open the clock event that hitm samples with.
///
/// # Errors
/// Why not.
pub fn perf_available() -> Result<(), String> {
    let mut attr = bindings::perf_event_attr {
        type_: bindings::PERF_TYPE_SOFTWARE,
        size: size_of::<bindings::perf_event_attr>() as u32,
        config: u64::from(bindings::PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attr.set_disabled(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    // SAFETY: `attr` is a valid structure that says its own size, and it lives during the call.
    let fd = unsafe { perf_event_open(&raw mut attr, 0, -1, -1, 0) };
    if fd < 0 {
        return Err(format!(
            "perf_event_open is refused: {}",
            io::Error::last_os_error()
        ));
    }
    // SAFETY: the call has just made this descriptor, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(())
}

/// Waits until no other test of this build measures, and keeps them waiting until the result is dropped.
///
/// Two fixtures at once on two processors would not run side by side.
///
/// # Errors
/// If the lock file cannot be made or locked.
pub fn quiet_machine() -> io::Result<Flock<File>> {
    let directory = cache_dir();
    std::fs::create_dir_all(&directory)?;
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join("measuring.lock"))?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, error)| error.into())
}
