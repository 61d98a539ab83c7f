//! Which lines threads meet on, while the program runs.
//!
//! This is for the progress line and for deciding whose stack to read; the report looks at the whole recording again,
//! and more closely. The table is bounded, so that a program that walks through memory costs no more than another.

use hitm_model::{LineAddress, Nanos, SpaceId, ThreadId};
use rustc_hash::FxHashMap;

/// Lines that are remembered.
const MOST_LINES: usize = 16_384;

/// Threads that are remembered per line: the last ones.
const LAST: usize = 4;

/// Accesses further apart are no meeting.
const WINDOW: Nanos = Nanos::from_millis(10);

/// A line of one address space.
pub(crate) type LineKey = (SpaceId, LineAddress);

/// One thread's access to a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) thread: ThreadId,
    pub(crate) at: Nanos,
    pub(crate) writes: bool,
}

/// The lines seen last, and the meetings on them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    lines: FxHashMap<LineKey, Line>,
    hottest: Option<(LineKey, u64)>,
}

#[derive(Debug, Default)]
struct Line {
    last: [Option<Access>; LAST],
    meetings: u64,
}

impl Lines {
    /// Enters an access; whether another thread was at the line just before, and one of the two writes.
    pub(crate) fn enter(&mut self, key: LineKey, access: Access) -> bool {
        if self.lines.len() >= MOST_LINES && !self.lines.contains_key(&key) {
            self.forget(access.at);
        }
        let line = self.lines.entry(key).or_default();
        let met = line.last.iter().flatten().any(|other| {
            other.thread != access.thread
                && (other.writes || access.writes)
                && access.at.since(other.at) <= WINDOW
        });
        // One place per thread; a newcomer takes that of the one longest away, of a recent writer only if it must.
        let worth = |&at: &usize| {
            line.last[at].map(|last| (last.writes && access.at.since(last.at) <= WINDOW, last.at))
        };
        let place = line
            .last
            .iter()
            .position(|last| last.is_some_and(|last| last.thread == access.thread))
            .or_else(|| (0..LAST).min_by_key(worth));
        if let Some(slot) = place.and_then(|place| line.last.get_mut(place)) {
            // A read right after the thread's own write must not hide the write.
            let wrote = slot.is_some_and(|last| {
                last.thread == access.thread && last.writes && access.at.since(last.at) <= WINDOW
            });
            let writes = access.writes || wrote;
            *slot = Some(Access { writes, ..access });
        }
        if met {
            line.meetings += 1;
            if self.hottest.is_none_or(|(_, most)| line.meetings > most) {
                self.hottest = Some((key, line.meetings));
            }
        }
        met
    }

    /// The line with the most meetings, and how many.
    pub(crate) const fn hottest(&self) -> Option<(LineKey, u64)> {
        self.hottest
    }

    /// Makes room: lines where nobody was for some time go, and if that is not enough, those without meetings, and if
    /// that is not enough, all.
    fn forget(&mut self, now: Nanos) {
        let recent = |line: &Line| {
            let seen = line.last.iter().flatten().map(|last| last.at).max();
            seen.is_some_and(|at| now.since(at) <= WINDOW)
        };
        self.lines
            .retain(|_, line| line.meetings > 0 || recent(line));
        if self.lines.len() >= MOST_LINES {
            self.lines.retain(|_, line| line.meetings > 0);
        }
        if self.lines.len() >= MOST_LINES {
            self.lines.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use hitm_model::Avma;

    use super::*;

    /// `thread@milliseconds` with `!` for a write, all on one line; the result has `*` for every meeting.
    fn check(accesses: &str, want: &str) {
        let mut lines = Lines::default();
        let got: String = accesses
            .split_whitespace()
            .map(|text| {
                let (thread, at) = text.trim_end_matches('!').split_once('@').unwrap();
                let access = Access {
                    thread: ThreadId(thread.parse().unwrap()),
                    at: Nanos::from_millis(at.parse().unwrap()),
                    writes: text.ends_with('!'),
                };
                let met = lines.enter((SpaceId(0), LineAddress(Avma(0))), access);
                if met { '*' } else { '.' }
            })
            .collect();
        assert_eq!(got, want, "{accesses}");
    }

    #[test]
    fn a_meeting_takes_two_threads_a_write_and_little_time() {
        check("1@0! 1@1! 1@2!", "...");
        check("1@0! 2@1!", ".*");
        check("1@0 2@1 1@2", "...");
        check("1@0! 2@1 1@2", ".*.");
        check("1@0! 2@1 1@2 2@3", ".*.*");
        check("1@0 2@1!", ".*");
        check("1@0! 2@50!", "..");
        check("1@0! 1@5 2@7", "..*");
        check("1@0! 1@15 2@17", "...");
        check("1@0! 2@1 3@2 4@3 5@4 6@5", ".*****");
    }

    #[test]
    fn the_table_stays_small() {
        let mut lines = Lines::default();
        for i in 0..200_000u64 {
            let key = (SpaceId(0), LineAddress(Avma(i * 64)));
            for thread in 0..2 {
                let access = Access {
                    thread: ThreadId(thread),
                    at: Nanos(i),
                    writes: true,
                };
                lines.enter(key, access);
            }
        }
        assert!(lines.lines.len() <= MOST_LINES);
        assert_eq!(lines.hottest().map(|(_, meetings)| meetings), Some(1));
    }
}
