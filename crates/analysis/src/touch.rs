//! One access to one line, as a sample shows it.

use hitm_model::{AccessKind, ByteRange, Nanos, ThreadId};

/// A thread's access to bytes of one line around the time of a sample.
///
/// The sample's instruction pointer is in the basic block that makes the access, so the access happened within the few
/// instructions around it: for the window in which accesses count as meeting, that is the time of the sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// When the sample was taken.
    pub at: Nanos,
    /// By whom.
    pub thread: ThreadId,
    /// On which processor it ran.
    pub cpu: u32,
    /// Which bytes of the line.
    pub range: ByteRange,
    /// What it does.
    pub kind: AccessKind,
    /// The instruction: an index into the table of sites.
    pub site: SiteId,
}

/// An instruction that accesses memory, by its place in the table of sites.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SiteId(pub u32);
