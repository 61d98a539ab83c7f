//! What a worker has run itself, one after the other in the order of the log.
//!
//! A predecessor that this worker has run has ended, and need not be looked for. If it has run all that may be in flight before
//! a transaction, it need not even read which the predecessors are: one line less that travels from the dispatcher's core.
//! A single worker always has; so has one of several while the others wait.

/// The transactions from one number to another, all run here.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Streak {
    from: u64,
    to: u64,
}

impl Streak {
    /// Whether every predecessor that a transaction can have was run here. `records` are those of the window: who is as many
    /// before it has ended.
    #[inline(always)]
    pub(crate) fn covers(self, sequence: u64, records: u64) -> bool {
        sequence == self.to && (self.from == 0 || sequence - self.from >= records)
    }

    /// A transaction was run here, to its end.
    #[inline(always)]
    pub(crate) fn ran(&mut self, sequence: u64) {
        if sequence != self.to {
            self.from = sequence;
        }
        self.to = sequence + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::Streak;

    /// After these have run here, with 4 records: whether nothing need be looked for before the next one.
    #[track_caller]
    fn check(ran: &[u64], next: u64, covers: bool) {
        let mut streak = Streak::default();
        for sequence in ran {
            streak.ran(*sequence);
        }
        assert_eq!(streak.covers(next, 4), covers, "{ran:?}, then {next}");
    }

    #[test]
    fn nothing_is_before_the_first() {
        check(&[], 0, true);
        check(&[], 1, false);
    }

    #[test]
    fn all_from_the_first_on() {
        check(&[0, 1], 2, true);
        check(&[0, 1], 3, false);
        check(&[0, 1, 2, 3, 4, 5], 6, true);
    }

    #[test]
    fn as_many_as_may_be_in_flight() {
        check(&[0, 1, 7, 8, 9], 10, false);
        check(&[0, 1, 7, 8, 9, 10], 11, true);
        // Number 6 was run elsewhere, and may be in flight.
        check(&[7, 8, 9], 10, false);
        check(&[9, 7, 8], 9, false);
    }
}
