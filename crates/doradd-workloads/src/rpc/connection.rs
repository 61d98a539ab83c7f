//! One connection: what it has sent, what it is owed, and how it ends.
//!
//! # Bounds
//! A connection has at most `pipeline` requests without a sent reply. At that point its bytes stay with the system, whose
//! own windows then stop the sender. A slow reader keeps replies in its own output, which is that long, and no entry of
//! the pool that all share: it cannot stop the others.
//!
//! # How it ends
//! A connection stops listening when the peer has sent all, or sends what is no frame, or the server ends. It is closed
//! when all that it is owed is sent. Closing a socket that has unread bytes would make the system tear the connection down at
//! once, and the peer lose replies it has not read yet; so the last of our bytes is followed by our end only, and what still
//! comes is thrown away until the peer ends too, for a while.

use std::io::{self, Read, Write};

use crate::rpc::buffers::{Filled, Input, Output};
use crate::rpc::pending::Queue;
use crate::rpc::wire::{Malformed, Reply, Request, RequestId, Status};

/// How often a peer's bytes are thrown away before others have their turn.
const DRAINS: usize = 8;

/// A connection's state, without its socket.
#[derive(Debug)]
pub(crate) struct Connection {
    input: Input,
    output: Output,
    /// Requests without a reply in the output.
    pub(crate) queue: Queue,
    pipeline: usize,
    hears: Hears,
    /// What is said last, after all that is owed.
    farewell: Option<Reply>,
    /// The socket may have bytes for us.
    pub(crate) readable: bool,
    /// It was full when it had its turn.
    is_stalled: bool,
    heard_end: bool,
    was_malformed: bool,
    /// It is among those that have a turn.
    pub(crate) is_queued: bool,
    /// It is among those that have something to send.
    pub(crate) is_dirty: bool,
}

/// Whether the peer is still listened to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hears {
    /// Yes.
    All,
    /// What is in the input is still taken; the peer has sent its end.
    Rest,
    /// Nothing more is taken.
    Nothing,
}

/// What a connection has for its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// A request.
    Request(Request),
    /// Nothing for now.
    Nothing,
    /// It must be answered first.
    Full,
}

impl Connection {
    /// A connection with room for so many requests without a reply.
    pub(crate) fn new(pipeline: usize) -> Self {
        Self {
            input: Input::default(),
            // One more for the farewell.
            output: Output::new(pipeline + 1),
            queue: Queue::default(),
            pipeline,
            hears: Hears::All,
            farewell: None,
            readable: true,
            is_stalled: false,
            heard_end: false,
            was_malformed: false,
            is_queued: false,
            is_dirty: false,
        }
    }

    /// Makes it as new, with the buffers it has.
    pub(crate) fn renew(&mut self) {
        self.input.clear();
        self.output.clear();
        debug_assert!(self.queue.is_empty());
        self.hears = Hears::All;
        self.farewell = None;
        self.readable = true;
        self.is_stalled = false;
        self.heard_end = false;
        self.was_malformed = false;
        self.is_queued = false;
        self.is_dirty = false;
    }

    /// Requests whose replies are not sent.
    fn owed(&self) -> usize {
        self.queue.len() + self.output.replies()
    }

    /// The next request, read from `socket` if need be.
    ///
    /// # Errors
    /// If the socket fails.
    pub(crate) fn hear(&mut self, mut socket: impl Read) -> io::Result<Heard> {
        let mut has_read = false;
        loop {
            if self.hears == Hears::Nothing {
                return Ok(Heard::Nothing);
            }
            if self.owed() >= self.pipeline {
                self.is_stalled = true;
                return Ok(Heard::Full);
            }
            match self.input.take() {
                Ok(Some(request)) => return Ok(Heard::Request(request)),
                Ok(None) => {}
                Err(fault) => self.end(Status::Malformed, fault.code()),
            }
            if self.hears == Hears::Rest && self.input.is_empty() {
                self.hears = Hears::Nothing;
            } else if self.hears == Hears::Rest {
                self.end(Status::Malformed, Malformed::Truncated.code());
            }
            // One system call a turn, so that a fast sender does not keep the others waiting.
            if self.hears != Hears::All || !self.readable || has_read {
                return Ok(Heard::Nothing);
            }
            has_read = true;
            match self.input.fill(&mut socket)? {
                Filled::Some(_) => {}
                Filled::Dry => self.readable = false,
                Filled::End => {
                    self.heard_end = true;
                    self.hears = Hears::Rest;
                }
            }
        }
    }

    /// The server ends: nothing more is heard, and the peer is told so.
    pub(crate) fn goodbye(&mut self) {
        if self.hears != Hears::Nothing {
            self.end(Status::Goodbye, 0);
        }
    }

    fn end(&mut self, status: Status, detail: u8) {
        self.was_malformed = status == Status::Malformed;
        self.hears = Hears::Nothing;
        self.input.clear();
        self.farewell = Some(Reply {
            status,
            detail,
            id: RequestId(0),
            sequence: 0,
            result: 0,
        });
    }

    /// Whether the peer is listened to no more, or only to what has come.
    pub(crate) fn is_ending(&self) -> bool {
        self.hears != Hears::All
    }

    /// Whether the peer sent what is no frame.
    pub(crate) fn was_malformed(&self) -> bool {
        self.was_malformed
    }

    /// Replies in the output that are not sent.
    pub(crate) fn unsent(&self) -> usize {
        self.output.replies()
    }

    /// Whether it was full and is not any more; said once.
    pub(crate) fn has_recovered(&mut self) -> bool {
        let recovered = self.is_stalled && self.owed() < self.pipeline;
        self.is_stalled &= !recovered;
        recovered
    }

    /// Whether the peer has sent its end, so that nothing unread can be left.
    pub(crate) fn has_heard_end(&self) -> bool {
        self.heard_end
    }

    /// Puts a reply into the output.
    pub(crate) fn answer(&mut self, reply: &Reply) {
        self.output.push(reply);
    }

    /// Sends what the peer takes.
    ///
    /// # Errors
    /// If the socket fails.
    pub(crate) fn flush(&mut self, mut socket: impl Write) -> io::Result<()> {
        if self.queue.is_empty()
            && self.hears == Hears::Nothing
            && let Some(farewell) = self.farewell.take()
        {
            self.output.push(&farewell);
        }
        self.output.flush(&mut socket)?;
        Ok(())
    }

    /// Whether all that was owed is sent and nothing more will be heard.
    pub(crate) fn is_over(&self) -> bool {
        self.hears == Hears::Nothing
            && self.queue.is_empty()
            && self.farewell.is_none()
            && self.output.is_empty()
    }

    /// Throws away what a peer still sends; whether it has sent its end.
    pub(crate) fn drain(&mut self, mut socket: impl Read) -> bool {
        for _ in 0..DRAINS {
            self.input.clear();
            match self.input.fill(&mut socket) {
                Ok(Filled::Some(_)) => {}
                Ok(Filled::Dry) => {
                    self.readable = false;
                    return false;
                }
                Ok(Filled::End) | Err(_) => return true,
            }
        }
        false
    }
}
