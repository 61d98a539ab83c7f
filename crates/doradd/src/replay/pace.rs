//! How many transactions ahead a worker fetches rows.

/// What one worker knows of that.
#[derive(Debug)]
pub(crate) struct Pace(u64);

impl Pace {
    pub(crate) fn new() -> Self {
        Self(2)
    }

    /// How many transactions ahead to fetch rows now.
    #[inline]
    pub(crate) fn lookahead(&self) -> u64 {
        self.0
    }

    /// A transaction has ended.
    #[inline]
    pub(crate) fn tick(&mut self) {}

    /// The worker has nothing to do.
    pub(crate) fn pause(&mut self) {}
}
