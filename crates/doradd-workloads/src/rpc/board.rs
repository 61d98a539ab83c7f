//! The way of results back from the workers to the thread that answers.
//!
//! Every accepted request holds a [`Slot`] of the board, and its [`Ticket`] travels with it through the runtime. When the
//! runtime drops the ticket, the slot is on the way back, with the result that was written into it before, if any: a body
//! that panics or is not run at all is answered like every other, because a ticket is dropped exactly once.
//!
//! # Who writes which line
//! Each slot has lines of its own: its worker writes result and link, the answering thread reads them. A worker puts
//! finished slots onto the stack of its lane, one word on a line of its own; the answering thread takes whole stacks.
//! So a line is never shared by two requests, and a lane only by the one worker (two, if there are more workers than lanes)
//! and the answering thread.
//!
//! # Why no ring is lost
//! The answering thread says that it sleeps, then looks at the lanes; a worker puts a slot onto a lane, then looks whether
//! somebody sleeps. All four are sequentially consistent, so at least one sees the other.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use doradd::Sequence;
use hitm_counters::Isolated;

use crate::request::{Outcome, Sink};
use crate::rpc::wire::Status;

/// The end of a lane's stack.
const NIL: u32 = u32::MAX;

/// A place on the board: one accepted request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(pub(crate) u32);

/// Wakes the answering thread.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

/// All results on their way.
pub struct Board {
    returns: Box<[Isolated<Return>]>,
    lanes: Box<[Isolated<AtomicU32>]>,
    sleeping: Isolated<AtomicBool>,
    waker: Box<dyn Wake>,
}

/// What comes back in a slot.
#[derive(Debug)]
struct Return {
    sequence: AtomicU64,
    result: AtomicU64,
    status: AtomicU8,
    /// The slot below in the lane's stack.
    below: AtomicU32,
}

/// A result that has come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Returned {
    pub(crate) slot: Slot,
    pub(crate) status: Status,
    /// Where it was executed; 0 if it was not.
    pub(crate) sequence: u64,
    pub(crate) result: u64,
}

impl Board {
    /// A board for so many requests at a time, and so many threads that execute.
    pub(crate) fn new(slots: usize, threads: usize, waker: Box<dyn Wake>) -> Self {
        let empty = |_| {
            Isolated::new(Return {
                sequence: AtomicU64::new(0),
                result: AtomicU64::new(0),
                status: AtomicU8::new(Status::NotRun as u8),
                below: AtomicU32::new(NIL),
            })
        };
        let lanes = threads.next_power_of_two();
        Self {
            returns: (0..slots).map(empty).collect(),
            lanes: (0..lanes)
                .map(|_| Isolated::new(AtomicU32::new(NIL)))
                .collect(),
            sleeping: Isolated::new(AtomicBool::new(false)),
            waker,
        }
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.returns.len()
    }

    /// The ticket of a free slot.
    pub(crate) fn ticket(&self, slot: Slot) -> Ticket<'_> {
        Ticket { board: self, slot }
    }

    fn put(&self, slot: Slot) {
        let lane = &self.lanes[lane() & (self.lanes.len() - 1)];
        let own = &self.returns[slot.0 as usize];
        let mut top = lane.load(Ordering::Relaxed);
        loop {
            own.below.store(top, Ordering::Relaxed);
            // Release, and more: what is in the slot is there for who takes it; see the module doc for the rest.
            match lane.compare_exchange_weak(top, slot.0, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => top = now,
            }
        }
        if self.sleeping.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Gives `each` all that has come back. Only the answering thread may call this.
    pub(crate) fn take(&self, mut each: impl FnMut(Returned)) {
        for lane in &self.lanes {
            if lane.load(Ordering::Relaxed) == NIL {
                continue;
            }
            let mut top = lane.swap(NIL, Ordering::Acquire);
            while top != NIL {
                let own = &self.returns[top as usize];
                let status = own.status.load(Ordering::Relaxed);
                let returned = Returned {
                    slot: Slot(top),
                    status: Status::of(status).unwrap_or(Status::NotRun),
                    sequence: own.sequence.load(Ordering::Relaxed),
                    result: own.result.load(Ordering::Relaxed),
                };
                own.status.store(Status::NotRun as u8, Ordering::Relaxed);
                top = own.below.load(Ordering::Relaxed);
                each(returned);
            }
        }
    }

    /// Says that the answering thread will sleep; whether it may, because nothing has come back.
    pub(crate) fn may_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        self.lanes
            .iter()
            .all(|lane| lane.load(Ordering::SeqCst) == NIL)
    }

    /// The answering thread is awake.
    pub(crate) fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Wakes the answering thread if it sleeps, whatever for.
    #[cold]
    pub(crate) fn wake(&self) {
        // One of many wakes it.
        if self.sleeping.swap(false, Ordering::SeqCst) {
            self.waker.wake();
        }
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board")
            .field("slots", &self.slots())
            .finish_non_exhaustive()
    }
}

/// This thread's number, counted by when it first ended a request.
fn lane() -> usize {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    thread_local!(static LANE: Cell<u32> = const { Cell::new(NIL) });
    LANE.with(|lane| {
        if lane.get() == NIL {
            lane.set(NEXT.fetch_add(1, Ordering::Relaxed) & (NIL >> 1));
        }
        lane.get() as usize
    })
}

/// Stands for an accepted request on its way through the runtime; its reply is sent after it is dropped.
pub struct Ticket<'b> {
    board: &'b Board,
    slot: Slot,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.board.put(self.slot);
    }
}

impl fmt::Debug for Ticket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.slot.0).finish()
    }
}

/// Tells tickets how their requests ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answers;

impl Sink<Ticket<'_>> for Answers {
    #[inline]
    fn ended(&self, ticket: &Ticket<'_>, sequence: Sequence, outcome: Outcome) {
        let (status, result) = match outcome {
            Outcome::Done(result) => (Status::Executed, result),
            _ => (Status::Panicked, 0),
        };
        let own = &ticket.board.returns[ticket.slot.0 as usize];
        own.sequence.store(sequence.0, Ordering::Relaxed);
        own.result.store(result, Ordering::Relaxed);
        own.status.store(status as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct Counts(Arc<AtomicUsize>);

    impl Wake for Counts {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn board(slots: usize) -> (Board, Arc<AtomicUsize>) {
        let wakes = Arc::new(AtomicUsize::new(0));
        (
            Board::new(slots, 2, Box::new(Counts(Arc::clone(&wakes)))),
            wakes,
        )
    }

    fn taken(board: &Board) -> Vec<Returned> {
        let mut all = Vec::new();
        board.take(|returned| all.push(returned));
        all.sort_by_key(|returned| returned.slot.0);
        all
    }

    #[test]
    fn a_dropped_ticket_comes_back_with_its_result_or_without() {
        let (board, wakes) = board(4);
        let (done, not_run) = (board.ticket(Slot(1)), board.ticket(Slot(3)));
        Answers.ended(&done, Sequence(7), Outcome::Done(99));
        assert_eq!(taken(&board), []);
        drop((done, not_run));
        let returned = |slot, status, sequence, result| Returned {
            slot: Slot(slot),
            status,
            sequence,
            result,
        };
        let expected = [
            returned(1, Status::Executed, 7, 99),
            returned(3, Status::NotRun, 0, 0),
        ];
        assert_eq!(taken(&board), expected);
        // The slot is used again, and its old result is not.
        drop(board.ticket(Slot(1)));
        assert_eq!(taken(&board)[0].status, Status::NotRun);
        assert_eq!(wakes.load(Ordering::Relaxed), 0, "nobody slept");
    }

    #[test]
    fn a_sleeper_is_woken_once_and_not_let_sleep_with_work_there() {
        let (board, wakes) = board(4);
        assert!(board.may_sleep());
        drop(board.ticket(Slot(0)));
        drop(board.ticket(Slot(1)));
        assert_eq!(wakes.load(Ordering::Relaxed), 1);
        assert!(!board.may_sleep());
        board.awake();
        assert_eq!(taken(&board).len(), 2);
    }

    #[test]
    fn nothing_is_lost_or_doubled_between_threads() {
        const ROUNDS: u32 = 20_000;
        let (board, _) = board(64);
        let returned: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 0..2u32 {
                let (board, returned) = (&board, &returned);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let slot = thread * 32 + round % 32;
                        // A slot is used again only when it has come back.
                        while returned[slot as usize].load(Ordering::Acquire) < round / 32 {
                            std::hint::spin_loop();
                        }
                        let ticket = board.ticket(Slot(slot));
                        Answers.ended(&ticket, Sequence(round.into()), Outcome::Done(slot.into()));
                    }
                });
            }
            let mut n = 0;
            while n < 2 * ROUNDS {
                board.take(|back| {
                    let seen = &returned[back.slot.0 as usize];
                    assert_eq!(back.result, u64::from(back.slot.0));
                    assert_eq!(back.sequence / 32, u64::from(seen.load(Ordering::Relaxed)));
                    seen.fetch_add(1, Ordering::Release);
                    n += 1;
                });
                std::thread::yield_now();
            }
        });
    }
}
