//! The seam between who takes samples and everything behind: [`RawEvent`]s in time order.

use std::{ffi::OsString, os::fd::RawFd};

use hitm_model::{Nanos, Pid, SamplerKind};

use crate::{CollectError, RawEvent};

/// Takes samples of one process and those it makes.
///
/// The recorder calls, in this order: [`environment`](Self::environment), starts the program held back before its
/// `execve`, [`arm`](Self::arm), lets it go, then [`poll`](Self::poll) again and again (every 100 ms, or when one of
/// [`wake_fds`](Self::wake_fds) becomes readable), and [`finish`](Self::finish) once.
pub(crate) trait Sampler {
    /// Who it is.
    fn kind(&self) -> SamplerKind;

    /// Time between two samples of one running thread.
    fn period(&self) -> Nanos;

    /// Variables that the program to start must find in its environment; a variable that exists is replaced, except
    /// that a value of `LD_PRELOAD` is put before the user's own.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    /// Prepares for the child that waits to execute its program.
    fn arm(&mut self, child: Pid) -> Result<(), CollectError>;

    /// Descriptors that become readable when there is much to fetch.
    fn wake_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    /// Hands over what has come in, in order of time. What is so young that something older may still come in is kept
    /// for the next call.
    fn poll(&mut self, sink: &mut dyn FnMut(RawEvent)) -> Result<(), CollectError>;

    /// What kept it from sampling all there was, as far as it is known yet.
    fn shortfall(&self) -> Option<String> {
        None
    }

    /// Stops sampling, whether or not the program is still running.
    fn stop(&mut self);

    /// Hands over everything that is left.
    fn finish(&mut self, sink: &mut dyn FnMut(RawEvent)) -> Result<(), CollectError>;
}
