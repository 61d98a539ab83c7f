//! The system calls of perf events, typed.

#![expect(unsafe_code, reason = "perf_event_open has no safe binding")]

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use hitm_model::Pid;
use perf_event_open_sys::{
    bindings::{PERF_FLAG_FD_CLOEXEC, PERF_IOC_FLAG_GROUP, perf_event_attr},
    ioctls,
};

use crate::CollectError;

/// Whom an event follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The calling thread, on whatever processor.
    ThisThread,
    /// A thread by its number, on whatever processor.
    Thread(i32),
    /// A thread by its number, on one processor.
    OnCpu {
        /// The thread.
        tid: i32,
        /// The processor.
        cpu: i32,
    },
}

/// Opens an event.
pub(crate) fn open(attr: &perf_event_attr, target: Target) -> io::Result<OwnedFd> {
    // The kernel may write to the attributes.
    let mut attr = *attr;
    let (tid, cpu) = match target {
        Target::ThisThread => (0, -1),
        Target::Thread(tid) => (tid, -1),
        Target::OnCpu { tid, cpu } => (tid, cpu),
    };
    // SAFETY: `attr` is initialised and lives through the call; the kernel checks everything else.
    let fd = unsafe {
        perf_event_open_sys::perf_event_open(
            &raw mut attr,
            tid,
            cpu,
            -1,
            u64::from(PERF_FLAG_FD_CLOEXEC),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the records of `from` go to the ring of `to`.
pub(crate) fn redirect(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both descriptors are open; the kernel checks that they are events that fit.
    check(unsafe { ioctls::SET_OUTPUT(from.as_raw_fd(), to.as_raw_fd()) })
}

/// Starts a held event.
pub(crate) fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call has no pointer.
    check(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Stops an event and those inherited from it.
pub(crate) fn disable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open; the call has no pointer.
    check(unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) })
}

/// The number that an event's records carry.
pub(crate) fn id(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: `id` lives through the call and has the 64 bits that it writes.
    check(unsafe { ioctls::ID(event.as_raw_fd(), &raw mut id) })?;
    Ok(id)
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

const _: () = assert!(PERF_IOC_FLAG_GROUP == 1, "0 means: this event only");

/// Why the kernel refused to open an event. `attached` is the process that was not started by us.
pub(crate) fn refusal(error: io::Error, attached: Option<Pid>) -> CollectError {
    let paranoid = paranoid();
    match (error.raw_os_error(), attached) {
        (Some(libc::ENOSYS), _) => CollectError::PerfMissing,
        (Some(libc::ESRCH), Some(pid)) => CollectError::NoSuchProcess { pid },
        (Some(libc::EACCES | libc::EPERM), _) if paranoid.is_some_and(|level| level > 2) => {
            CollectError::PerfParanoid {
                paranoid: paranoid.unwrap_or_default(),
            }
        }
        // The kernel's own check of who may look into whom.
        (Some(libc::EACCES), Some(pid)) => CollectError::NotPermitted { pid },
        (Some(libc::EACCES | libc::EPERM), _) => CollectError::PerfFiltered { source: error },
        _ => CollectError::Perf {
            doing: "opening an event",
            source: error,
        },
    }
}

fn paranoid() -> Option<i32> {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?;
    text.trim().parse().ok()
}
