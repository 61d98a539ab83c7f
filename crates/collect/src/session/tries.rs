//! What does not succeed at once is tried again, ever more seldom, and at last no more.

use hitm_model::Nanos;

/// How often something is tried.
const MOST: u32 = 7;

/// The pause after the first time; each later one is twice as long.
const FIRST_PAUSE: Nanos = Nanos::from_millis(10);

/// How often something was tried, and when it may be again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tries {
    n_tries: u32,
    not_before: Nanos,
}

impl Tries {
    /// Whether to try now; counts that as a try.
    pub(crate) fn start(&mut self, now: Nanos) -> bool {
        if self.n_tries >= MOST || now < self.not_before {
            return false;
        }
        let pause = FIRST_PAUSE.0 << self.n_tries;
        self.n_tries += 1;
        self.not_before = Nanos(now.0.saturating_add(pause));
        true
    }

    /// There is nothing left to try.
    pub(crate) const fn end(&mut self) {
        self.n_tries = MOST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_until_the_last_try() {
        let mut tries = Tries::default();
        let times: Vec<u64> = (0..5000)
            .filter(|&at| tries.start(Nanos::from_millis(at)))
            .collect();
        assert_eq!(times, [0, 10, 30, 70, 150, 310, 630]);
    }

    #[test]
    fn what_has_ended_is_not_tried_again() {
        let mut tries = Tries::default();
        assert!(tries.start(Nanos(0)));
        tries.end();
        assert!(!tries.start(Nanos::from_millis(5000)));
    }
}
