//! A pair of barriers of which one is all but free: for two threads that each write one word and then read the other's.
//!
//! Between the write and the read, both need a sequentially consistent fence, or each may miss what the other wrote. One of
//! the two does this for every request, the other before it falls asleep. So the second pays for both: it has the
//! kernel put a barrier into every running thread of the process (`membarrier(2)`). The first then only keeps the
//! compiler from moving its read up. Where the kernel offers no such call, both are fences.

use crate::sync::{Ordering, fence};

/// Which barriers to use; both sides must have the same one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Barrier {
    asymmetric: bool,
}

impl Default for Barrier {
    fn default() -> Self {
        Self {
            asymmetric: kernel::register(),
        }
    }
}

impl Barrier {
    /// For the side that comes by often.
    #[inline(always)]
    pub(crate) fn light(self) {
        if self.asymmetric {
            std::sync::atomic::compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
    }

    /// For the side that comes by seldom.
    pub(crate) fn heavy(self) {
        // Should the kernel refuse what it has agreed to, sleepers would miss rings: it never does for a registered process.
        if !self.asymmetric || !kernel::barrier() {
            fence(Ordering::SeqCst);
        }
    }
}

#[cfg(all(target_os = "linux", not(any(loom, shuttle, miri))))]
mod kernel {
    use std::sync::OnceLock;

    use nix::libc::{SYS_membarrier, c_int, syscall};

    // From linux/membarrier.h.
    const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;
    const PRIVATE_EXPEDITED: c_int = 1 << 3;

    /// Tells the kernel that this process will use barriers; whether it offers them.
    pub(super) fn register() -> bool {
        static REGISTERED: OnceLock<bool> = OnceLock::new();
        *REGISTERED.get_or_init(|| call(REGISTER_PRIVATE_EXPEDITED))
    }

    /// A full barrier in every running thread of this process, between the beginning and the end of the call.
    pub(super) fn barrier() -> bool {
        call(PRIVATE_EXPEDITED)
    }

    fn call(command: c_int) -> bool {
        #[expect(unsafe_code, reason = "a system call that has no wrapper")]
        // SAFETY: membarrier takes two integers besides its number, and touches no memory of ours.
        let result = unsafe { syscall(SYS_membarrier, command, 0, 0) };
        result == 0
    }
}

#[cfg(not(all(target_os = "linux", not(any(loom, shuttle, miri)))))]
mod kernel {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn barrier() -> bool {
        false
    }
}
