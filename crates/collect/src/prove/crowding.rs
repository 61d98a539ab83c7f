//! Whether the first windows show that the threads do not get processors to themselves: then the others would come to
//! nothing as well, and the program would lose time for nothing.

use hitm_model::{Placement, Window};

use super::{
    group::Halt,
    ledger::threads_of,
    schedule::LEAST,
    target::{Stat, Target},
};
use crate::machine::Cpu;

/// Of a window apart: a thread that waited longer did not have a processor to itself.
const MOST_WAITING: f64 = 0.1;

/// After so many windows of either placement it is decided.
const FIRST: u32 = 4;

/// A series of no more windows than say something is had to its end.
const SHORT: usize = 2 * LEAST as usize;

/// What the first windows of a group were like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Crowding {
    windows: u32,
    apart: u32,
    crowded: u32,
    others: usize,
}

impl Crowding {
    /// Takes a window into account that is just over. `others` counts other threads of the program that want the processors
    /// at this moment; it is asked only if they are missing.
    pub(super) fn add(&mut self, window: &Window, others: impl FnOnce() -> usize) {
        self.windows += 1;
        if window.placement != Placement::Apart {
            return;
        }
        self.apart += 1;
        let length = window.end.since(window.start).0 as f64;
        let mut waited = window.threads.iter().map(|thread| thread.waited.0 as f64);
        if waited.any(|waited| waited > MOST_WAITING * length) {
            self.crowded += 1;
            self.others = self.others.max(others());
        }
    }

    /// Whether to go on with a series of `n_slots` windows.
    pub(super) fn check(&self, n_slots: usize) -> Result<(), Halt> {
        let hopeless = self.apart > 0 && self.crowded == self.apart;
        if self.windows != FIRST || n_slots <= SHORT || !hopeless {
            return Ok(());
        }
        let who = match self.others {
            0 => "other programs run on them (top shows which), or other threads of this one"
                .to_owned(),
            1 => "another thread of the program runs on them".to_owned(),
            n => format!("{n} other threads of the program run on them"),
        };
        Err(Halt::refused(format!(
            "cannot tell: the threads do not get processors to themselves: {who}; let the program run fewer threads, wait \
             until the machine is quieter, or use one with more processors"
        )))
    }
}

/// How many threads of the group's processes run or could on these processors, besides its own.
pub(super) fn others_on(cpus: &[Cpu], group: &[Target]) -> usize {
    let mut pids: Vec<_> = group.iter().map(|target| target.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let threads = pids
        .into_iter()
        .flat_map(|pid| threads_of(pid).into_iter().map(move |tid| (pid, tid)));
    threads
        .filter(|(_, tid)| group.iter().all(|target| target.tid != *tid))
        .filter_map(|(pid, tid)| Stat::read(pid, tid))
        .filter(|stat| stat.runnable && cpus.contains(&stat.cpu))
        .count()
}

#[cfg(test)]
mod tests {
    use hitm_model::{GroupOutcome, Nanos, WindowThread};

    use super::*;

    /// A window of 100 in which a thread waited so long.
    fn window(placement: Placement, waited: u64) -> Window {
        let thread = |waited| WindowThread {
            cpu: 0,
            ran: Nanos(100 - waited),
            waited: Nanos(waited),
            voluntary: 0,
            involuntary: 0,
        };
        Window {
            group: 0,
            placement,
            start: Nanos(0),
            end: Nanos(100),
            threads: vec![thread(0), thread(waited)],
            words: Vec::new(),
            stolen: None,
        }
    }

    /// What is said after windows apart in which a thread waited so long, and as many together.
    fn check(apart: &[u64], others: usize, n_slots: usize, wanted: Option<&str>) {
        let mut crowding = Crowding::default();
        for waited in apart {
            crowding.add(&window(Placement::Together, 50), || 9);
            crowding.add(&window(Placement::Apart, *waited), || others);
        }
        match (crowding.check(n_slots), wanted) {
            (Ok(()), None) => {}
            (Err(Halt::Group(GroupOutcome::Refused(why))), Some(wanted)) => {
                assert!(why.contains(wanted), "{why}");
            }
            (result, _) => panic!("{apart:?}: {result:?}"),
        }
    }

    #[test]
    fn windows_are_given_up_if_the_first_ones_are_all_crowded() {
        check(&[50, 30], 3, 16, Some("3 other threads of the program"));
        check(&[50, 30], 1, 16, Some("another thread of the program"));
        check(&[50, 30], 0, 16, Some("other programs"));
        check(&[50, 10], 3, 16, None);
        check(&[50], 3, 16, None);
        check(&[50, 30], 3, 8, None);
    }
}
