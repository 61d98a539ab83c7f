//! A connection as its IO thread has it: what is read of it, what is parsed, what is to be written.

use std::io::{self, Read as _};
use std::net::Shutdown;

use mio::net::TcpStream;

use crate::config::Limits;
use crate::output::Output;
use crate::resp::{Bounds, Commands, Parser, ProtocolError, Reply};
use crate::stats::Tally;
use crate::turn::{Session, Turn};

/// Reads, and writes, of a client with large commands or replies before others have their turn.
const CALLS_MAX: usize = 16;
/// Bytes of an error that ends a connection, at most.
const FAULT_BYTES: usize = 1 << 10;
/// Above this capacity the rest of a line gives its memory back.
const KEEP_BYTES: usize = 4 << 10;
/// Bytes thrown away when a connection is closed by us, so that the system does not reset it before the last reply is read.
const DISCARD_BYTES: usize = 1 << 20;

/// What is to become of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It is served.
    Open,
    /// Nothing more is read; what is to be written still is.
    Ending,
    /// To be closed now.
    Over,
}

/// Why a client was disconnected, where that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It sent what is no command.
    Protocol,
    /// It sent more than it may before it was executed.
    Query,
    /// It left more replies unread than it may.
    Output,
    /// All clients together had too much, and this one the most.
    Memory,
}

/// What an IO thread has to do after it served a client.
#[derive(Debug)]
pub(crate) enum Next {
    /// Nothing until the socket or the main thread says more.
    Wait,
    /// It had its share for now: serve it again after the others.
    Again,
    /// Its commands are to be executed.
    Execute(Box<Turn>),
    /// It is to be closed.
    Close,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Client {
    stream: TcpStream,
    /// Whether the socket may have more: it is told once, and holds until a read or write finds the contrary.
    readable: bool,
    /// The other side sends no more: there is an end to be read, of which nothing tells again.
    read_closed: bool,
    writable: bool,
    /// The beginning of a line whose end has not come.
    input: Vec<u8>,
    parser: Parser,
    /// Away while the main thread has it.
    turn: Option<Box<Turn>>,
    output: Output,
    phase: Phase,
    /// What is wrong with what it sent, to be said after the replies to what came before.
    fault: Option<ProtocolError>,
    /// Why it is disconnected, if that is counted.
    pub(crate) cause: Option<Cause>,
    /// Bytes that its thread counted for it.
    pub(crate) counted: usize,
}

impl Client {
    pub(crate) fn new(
        stream: TcpStream,
        session: Session,
        thread: usize,
        slot: usize,
        limits: &Limits,
    ) -> Self {
        Self {
            stream,
            readable: false,
            read_closed: false,
            writable: true,
            input: Vec::new(),
            parser: Parser::new(Bounds {
                bulk_bytes: limits.proto_max_bulk_len,
                query_bytes: limits.client_query_buffer_limit,
            }),
            turn: Some(Box::new(Turn {
                thread,
                slot,
                session,
                commands: Commands::default(),
                reply: Reply::default(),
                close: false,
            })),
            output: Output::default(),
            phase: Phase::Open,
            fault: None,
            cause: None,
            counted: 0,
        }
    }

    pub(crate) fn stream_mut(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Whether the main thread has its commands: then it can be told, but not closed.
    pub(crate) fn is_away(&self) -> bool {
        self.turn.is_none()
    }

    /// Memory of its buffers in bytes; of those that are with the main thread as they were.
    pub(crate) fn footprint(&self) -> usize {
        let turn = self.turn.as_ref();
        let at_home = turn.map_or(0, |turn| {
            turn.commands.capacity_bytes() + turn.reply.bytes().len()
        });
        self.input.capacity() + self.output.capacity() + at_home
    }

    /// The socket has something to say.
    pub(crate) fn on_event(&mut self, event: &mio::event::Event) {
        self.read_closed |= event.is_read_closed();
        self.readable |= event.is_readable() || event.is_read_closed();
        self.writable |= event.is_writable();
        // Nothing that is written could arrive any more.
        if event.is_error() || event.is_write_closed() {
            self.phase = Phase::Over;
        }
    }

    /// Its commands were executed.
    pub(crate) fn on_executed(&mut self, mut turn: Box<Turn>) {
        if turn.reply.overflowed() {
            self.disconnect(Cause::Output);
        }
        self.output.append(turn.reply.bytes_mut());
        turn.commands.forget_whole();
        if turn.close {
            self.end();
        }
        self.turn = Some(turn);
        self.answer_fault();
    }

    /// To be closed because it has more than it may.
    pub(crate) fn disconnect(&mut self, cause: Cause) {
        self.cause = Some(cause);
        self.phase = Phase::Over;
    }

    /// Nothing more is read.
    fn end(&mut self) {
        if self.phase == Phase::Open {
            self.phase = Phase::Ending;
        }
    }

    /// Says what was wrong with the input, once everything before it is answered.
    fn answer_fault(&mut self) {
        let Some(fault) = self.fault.take_if(|_| self.phase == Phase::Open) else {
            return;
        };
        let mut text = Reply::new(FAULT_BYTES);
        text.error(&format!("ERR Protocol error: {fault}"));
        self.output.append(text.bytes_mut());
        self.cause = Some(match fault {
            ProtocolError::QueryLimit => Cause::Query,
            _ => Cause::Protocol,
        });
        self.end();
    }

    /// Does for the client what can be done now, within its share of time.
    pub(crate) fn serve(&mut self, tally: &Tally, scratch: &mut [u8], limits: &Limits) -> Next {
        for _ in 0..CALLS_MAX {
            if self.phase != Phase::Over && self.writable && self.output.pending() > 0 {
                self.write(tally, scratch.len());
            }
            if self.is_away() {
                return Next::Wait;
            }
            match self.phase {
                Phase::Over => return Next::Close,
                Phase::Ending if self.output.pending() == 0 => return Next::Close,
                Phase::Ending if self.writable => return Next::Again,
                Phase::Ending => return Next::Wait,
                Phase::Open => {}
            }
            if self.has_commands() {
                return self.hand_over(limits);
            }
            if !self.readable {
                let more_to_write = self.writable && self.output.pending() > 0;
                return if more_to_write {
                    Next::Again
                } else {
                    Next::Wait
                };
            }
            self.read(tally, scratch);
        }
        Next::Again
    }

    fn has_commands(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| turn.commands.n_commands() > 0)
    }

    /// Gives the commands away, with room for as much reply as the client may still leave unread.
    fn hand_over(&mut self, limits: &Limits) -> Next {
        let room = limits
            .client_output_buffer_limit
            .saturating_sub(self.output.pending());
        match self.turn.take() {
            Some(mut turn) => {
                turn.reply.set_room(room);
                Next::Execute(turn)
            }
            None => Next::Wait,
        }
    }

    fn write(&mut self, tally: &Tally, chunk: usize) {
        for _ in 0..CALLS_MAX {
            match self.output.send(&mut self.stream, chunk) {
                Ok(Some(sent)) => {
                    tally.writes();
                    tally.sent(sent);
                }
                Ok(None) => self.writable = false,
                Err(_) => self.phase = Phase::Over,
            }
            if !self.writable || self.phase == Phase::Over || self.output.pending() == 0 {
                break;
            }
        }
    }

    /// Reads once, and parses what came.
    fn read(&mut self, tally: &Tally, scratch: &mut [u8]) {
        match self.stream.read(scratch) {
            Ok(n) => {
                tally.reads();
                tally.received(n);
                if n == 0 {
                    // It sends no more, but may well be reading: what it asked for is still answered.
                    self.end();
                } else {
                    // Less than was asked for is all there was; what comes later is told.
                    self.readable = n == scratch.len() || self.read_closed;
                    self.parse(&scratch[..n]);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.readable = false,
            Err(_) => self.phase = Phase::Over,
        }
    }

    fn parse(&mut self, new: &[u8]) {
        let Some(turn) = &mut self.turn else { return };
        let input: &[u8] = if self.input.is_empty() {
            new
        } else {
            self.input.extend_from_slice(new);
            &self.input
        };
        match self.parser.feed(input, &mut turn.commands) {
            Ok(used) if self.input.is_empty() => self.input.extend_from_slice(&new[used..]),
            Ok(used) => {
                self.input.drain(..used);
                if self.input.is_empty() && self.input.capacity() > KEEP_BYTES {
                    self.input = Vec::new();
                }
            }
            Err(fault) => self.fault = Some(fault),
        }
        if !self.has_commands() {
            self.answer_fault();
        }
    }

    /// Closes the connection from our side so that the client can still read what was sent.
    pub(crate) fn close(mut self, scratch: &mut [u8]) {
        // It may be gone already.
        let _ = self.stream.shutdown(Shutdown::Write);
        let mut discarded = 0;
        while discarded < DISCARD_BYTES {
            match self.stream.read(scratch) {
                Ok(n) if n > 0 => discarded += n,
                _ => break,
            }
        }
    }
}
