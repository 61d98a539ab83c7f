//! Sleeping until there is something to do.

use std::{
    os::fd::{BorrowedFd, RawFd},
    time::Duration,
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The descriptors that are waited for.
#[derive(Debug)]
pub(super) struct Waiting {
    descriptors: Vec<RawFd>,
}

impl Waiting {
    /// Waits for any of `descriptors`, which must stay open as long as this is used.
    pub(super) fn new(descriptors: impl IntoIterator<Item = RawFd>) -> Self {
        Self {
            descriptors: descriptors.into_iter().collect(),
        }
    }

    /// Waits until a descriptor is readable or the time is over; a signal ends it as well.
    #[expect(
        unsafe_code,
        reason = "the sampler owns the descriptors while it is polled"
    )]
    pub(super) fn wait(&mut self, timeout: Duration) {
        let mut polled: Vec<PollFd<'_>> = self
            .descriptors
            .iter()
            .map(|&fd| {
                // SAFETY: `new` requires that they stay open.
                let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                PollFd::new(fd, PollFlags::POLLIN)
            })
            .collect();
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::ZERO);
        if poll(&mut polled, timeout).is_err() {
            return;
        }
        // The event of a thread that has ended hangs up at once and forever.
        let over = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        let kept: Vec<bool> = polled
            .iter()
            .map(|fd| fd.revents().is_none_or(|events| !events.intersects(over)))
            .collect();
        let mut kept = kept.into_iter();
        self.descriptors.retain(|_| kept.next().unwrap_or(false));
    }
}
