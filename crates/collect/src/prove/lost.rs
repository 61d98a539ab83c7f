//! What the threads of a group lose by windows: the time that they wait for a processor, settling included.
//!
//! It is summed as it goes along: of a thread that has ended, what it lost before is known all the same. What it lost since
//! it was looked at last is not, and is left out.

use hitm_model::Nanos;

use super::accounts::{Account, Balance};
use crate::clock;

/// The accounts of a group's threads, and what they have waited since they are looked at.
#[derive(Debug)]
pub(super) struct Lost<'a> {
    accounts: &'a [Account],
    at: Nanos,
    last: Vec<Option<Balance>>,
    sum: Nanos,
}

impl<'a> Lost<'a> {
    pub(super) fn from_now_on(accounts: &'a [Account]) -> Self {
        Self {
            accounts,
            at: clock::now(),
            last: accounts.iter().map(Account::read).collect(),
            sum: Nanos::default(),
        }
    }

    pub(super) const fn accounts(&self) -> &'a [Account] {
        self.accounts
    }

    /// The accounts as they are now; `None` if a thread has ended.
    pub(super) fn look(&mut self) -> Option<Vec<Balance>> {
        let at = clock::now();
        let now: Vec<Option<Balance>> = self.accounts.iter().map(Account::read).collect();
        self.add(at.since(self.at), &now);
        self.at = at;
        self.last.clone_from(&now);
        now.into_iter().collect()
    }

    fn add(&mut self, length: Nanos, now: &[Option<Balance>]) {
        let known = self.last.iter().zip(now);
        for (before, after) in known.filter_map(|(before, after)| before.zip(*after)) {
            self.sum = self.sum.plus(before.waited_until(&after, length));
        }
    }

    /// All of it, until now.
    pub(super) fn sum(mut self) -> Nanos {
        let _ = self.look();
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_lost_before_it_ended_counts() {
        let waited = |waited| {
            Some(Balance {
                waited: Nanos(waited),
                ..Balance::default()
            })
        };
        let mut lost = Lost::from_now_on(&[]);
        for now in [
            [waited(1000), waited(5)],
            [waited(1030), waited(15)],
            [None, waited(25)],
            [None, None],
        ] {
            lost.add(Nanos(100), &now);
            lost.last = now.to_vec();
        }
        assert_eq!(lost.sum(), Nanos(30 + 10 + 10));
    }
}
