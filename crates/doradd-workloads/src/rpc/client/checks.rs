//! Whether the replies are what the protocol promises: each request answered once, in the order of its connection, each
//! place in the order given once.

use std::collections::HashMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::rpc::client::State;
use crate::rpc::client::link::{Closed, Link, Owed};
use crate::rpc::wire::{NoReply, Reply, RequestId, Status};

/// Faults that are kept; more are counted.
const KEPT: usize = 16;
/// Places in the order whose bits are together.
const PAGE: u64 = 4096;

/// Something that a server must not do.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// A reply to another request than the oldest of its connection.
    WrongId {
        /// The request whose turn it was; nothing if there was none.
        expected: Option<RequestId>,
        /// The request that was answered.
        answered: RequestId,
    },
    /// Two requests with the same place in the order.
    SamePlace {
        /// The place.
        sequence: u64,
    },
    /// A reply of a kind that does not answer this kind of request.
    WrongStatus {
        /// The request.
        id: RequestId,
        /// What the reply said.
        status: Status,
    },
    /// Bytes that are no reply.
    NoReply(NoReply),
    /// Our requests were not understood.
    Malformed,
    /// No reply for too long.
    Silent {
        /// How long.
        seconds: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongId {
                expected: Some(expected),
                answered,
            } => {
                write!(
                    f,
                    "request {} was answered when it was the turn of {}",
                    answered.0, expected.0
                )
            }
            Self::WrongId {
                expected: None,
                answered,
            } => {
                write!(
                    f,
                    "request {} was answered, and none waited for an answer",
                    answered.0
                )
            }
            Self::SamePlace { sequence } => {
                write!(f, "two requests got the place {sequence} in the order")
            }
            Self::WrongStatus { id, status } => {
                write!(f, "request {} was answered by {status:?}", id.0)
            }
            Self::NoReply(fault) => write!(f, "the server sent {fault}; is it a ycsb-server?"),
            Self::Malformed => write!(
                f,
                "the server took a request for no frame; is it of the same version?"
            ),
            Self::Silent { seconds } => {
                write!(
                    f,
                    "no reply for {seconds} s; give `--timeout` more if the server may take longer"
                )
            }
        }
    }
}

/// What the replies said.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Answers {
    /// Requests that were executed.
    pub executed: u64,
    /// Requests that got no place in the order, because the server has no such row.
    pub refused: u64,
    /// Requests whose body panicked.
    pub panicked: u64,
    /// Requests that have a place in the order and were not run there.
    pub not_run: u64,
    /// Requests without an answer: the server ended, or the connection.
    pub unanswered: u64,
    /// Connections that the server ended with a word of goodbye: what was not answered there was not accepted.
    pub goodbyes: u64,
    /// Connections that ended without a word: what was not answered there may have been executed.
    pub broken: u64,
    /// What the server must not do.
    pub faults: u64,
    /// The first of these, in words.
    pub first_faults: Vec<String>,
}

impl Answers {
    /// Whether every request was executed and answered as it must be, and no connection ended before its time.
    #[must_use]
    pub fn are_all_right(&self) -> bool {
        let not_done = self.refused + self.panicked + self.not_run + self.unanswered;
        not_done + self.goodbyes + self.broken + self.faults == 0
    }
}

/// What was seen so far.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    answers: Answers,
    places: Places,
    state: Option<State>,
}

impl Checks {
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.answers.faults += 1;
        if self.answers.first_faults.len() < KEPT {
            self.answers.first_faults.push(fault.to_string());
        }
    }

    /// A reply has come when it was the turn of `owed`.
    pub(crate) fn reply(&mut self, owed: Option<&Owed>, reply: &Reply) {
        let expected = owed.map(|owed| owed.id);
        if expected != Some(reply.id) {
            self.fault(Fault::WrongId {
                expected,
                answered: reply.id,
            });
        }
        let asked_state = expected == Some(RequestId(u64::MAX));
        if asked_state != (reply.status == Status::State) {
            self.fault(Fault::WrongStatus {
                id: reply.id,
                status: reply.status,
            });
        }
        if reply.status.is_ordered() && !self.places.insert(reply.sequence) {
            self.fault(Fault::SamePlace {
                sequence: reply.sequence,
            });
        }
        match reply.status {
            Status::Executed => self.answers.executed += 1,
            Status::Refused => self.answers.refused += 1,
            Status::Panicked => self.answers.panicked += 1,
            Status::State => {
                self.state = Some(State {
                    transactions: reply.sequence,
                    digest: reply.result,
                });
            }
            _ => self.answers.not_run += 1,
        }
    }

    pub(crate) fn state(&self) -> Option<State> {
        self.state
    }

    /// What came of it, with how the connections are.
    pub(crate) fn answers(mut self, links: &[Link]) -> Answers {
        for link in links {
            self.answers.unanswered += link.unanswered();
            match link.closed {
                Some(Closed::Goodbye) => self.answers.goodbyes += 1,
                Some(Closed::Broken) => self.answers.broken += 1,
                Some(Closed::Malformed) => self.fault(Fault::Malformed),
                Some(Closed::NoReply(fault)) => self.fault(Fault::NoReply(fault)),
                None => {}
            }
        }
        self.answers
    }
}

/// A set of numbers that are close together.
#[derive(Debug, Default)]
struct Places(HashMap<u64, Box<[u64; (PAGE / 64) as usize]>>);

impl Places {
    /// Whether the number is new.
    fn insert(&mut self, number: u64) -> bool {
        let page = self
            .0
            .entry(number / PAGE)
            .or_insert_with(|| Box::new([0; (PAGE / 64) as usize]));
        let (word, bit) = ((number % PAGE / 64) as usize, 1 << (number % 64));
        let is_new = page[word] & bit == 0;
        page[word] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(id: u64, status: Status, sequence: u64) -> Reply {
        Reply {
            status,
            detail: 0,
            id: RequestId(id),
            sequence,
            result: 5,
        }
    }

    /// What a server could do wrong is told.
    #[test]
    fn wrong_replies_are_told() {
        let owed = |id| Owed {
            id: RequestId(id),
            due: 0,
        };
        let mut checks = Checks::default();
        for id in 0..10_000 {
            checks.reply(Some(&owed(id)), &reply(id, Status::Executed, 9_999 - id));
        }
        checks.reply(
            Some(&owed(u64::MAX)),
            &reply(u64::MAX, Status::State, 10_000),
        );
        assert_eq!(
            checks.state(),
            Some(State {
                transactions: 10_000,
                digest: 5
            })
        );
        assert_eq!(
            (checks.answers.executed, checks.answers.faults),
            (10_000, 0)
        );
        assert!(checks.answers.are_all_right());

        checks.reply(Some(&owed(3)), &reply(4, Status::Executed, 20_000));
        checks.reply(None, &reply(5, Status::Executed, 20_001));
        checks.reply(Some(&owed(6)), &reply(6, Status::Executed, 77));
        checks.reply(Some(&owed(7)), &reply(7, Status::State, 0));
        checks.fault(Fault::Silent { seconds: 1 });
        let answers = checks.answers(&[]);
        let expected = [
            "request 4 was answered when it was the turn of 3",
            "request 5 was answered, and none waited for an answer",
            "request 5 was answered by Executed",
            "two requests got the place 77 in the order",
            "request 7 was answered by State",
            "no reply for 1 s; give `--timeout` more if the server may take longer",
        ];
        let told: Vec<&str> = answers
            .first_faults
            .iter()
            .map(String::as_str)
            .filter(|it| !it.contains("request 5 was answered by"))
            .collect();
        let expected: Vec<&str> = expected
            .into_iter()
            .filter(|it| !it.contains("request 5 was answered by"))
            .collect();
        assert_eq!(told, expected);
        assert!(!answers.are_all_right());
    }
}
