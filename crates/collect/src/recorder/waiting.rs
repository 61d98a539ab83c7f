//! Sleeping until there is something to do.

use std::{os::fd::RawFd, time::Duration};

/// The descriptors that are waited for.
#[derive(Debug)]
pub(super) struct Waiting {
    descriptors: Vec<libc::pollfd>,
}

impl Waiting {
    /// Waits for any of `descriptors`. One that is closed is not waited for any longer.
    pub(super) fn new(descriptors: impl IntoIterator<Item = RawFd>) -> Self {
        let polled = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        Self {
            descriptors: descriptors.into_iter().map(polled).collect(),
        }
    }

    /// Waits until a descriptor is readable or the time is over; a signal ends it as well.
    #[expect(
        unsafe_code,
        reason = "there may be thousands of descriptors, and nix would have a new list of borrowed ones each time"
    )]
    pub(super) fn wait(&mut self, timeout: Duration) {
        let timeout = libc::c_int::try_from(timeout.as_millis()).unwrap_or(libc::c_int::MAX);
        let (list, len) = (self.descriptors.as_mut_ptr(), self.descriptors.len());
        // SAFETY: the list is exclusively borrowed and has so many entries; descriptors are only numbers here, and the
        // kernel reports one that is not open.
        let result = unsafe { libc::poll(list, len as libc::nfds_t, timeout) };
        if result < 0 {
            return;
        }
        // The event of a thread that has ended hangs up at once and forever.
        let over = libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        self.descriptors.retain(|fd| fd.revents & over == 0);
    }
}
