//! The writer of replies, in both versions of the protocol, with a bound: what does not fit is not written, and the client
//! is disconnected instead.

use std::fmt::Display;
use std::io::Write as _;

/// The version of the protocol a client asked for with `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// RESP 2, which connections begin with.
    #[default]
    Resp2,
    /// RESP 3: maps, nulls and verbatim strings are types of their own.
    Resp3,
}

/// A client's replies that were not sent yet.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    protocol: Protocol,
    bytes: Vec<u8>,
    room: usize,
    overflowed: bool,
    n_errors: u64,
}

impl Reply {
    /// An empty one that takes so many bytes.
    pub fn new(room: usize) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    /// What was written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether something did not fit. Nothing is written any more then.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// The version that replies are written in from now on.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the version.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Makes room for so many bytes in all, keeping what is written.
    pub(crate) fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// What was written, to be sent; afterwards it is empty.
    pub(crate) fn bytes_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// How many errors were written since this was last asked.
    pub(crate) fn take_n_errors(&mut self) -> u64 {
        std::mem::take(&mut self.n_errors)
    }

    /// Adds pieces, all or none.
    fn push(&mut self, pieces: &[&[u8]]) {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        if self.overflowed || self.bytes.len() + length > self.room {
            self.overflowed = true;
            return;
        }
        for piece in pieces {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// A line with a number, like `:5` or `*2`.
    fn line(&mut self, kind: u8, number: impl Display) {
        let mut text = [0u8; 24];
        let length = {
            let mut rest = &mut text[..];
            // An i64 has 20 characters at most.
            let _ = write!(rest, "{number}");
            24 - rest.len()
        };
        self.push(&[&[kind], &text[..length], b"\r\n"]);
    }

    /// `+text`; the text is one of ours and has no line break.
    pub fn simple(&mut self, text: &str) {
        debug_assert!(!text.contains(['\r', '\n']));
        self.push(&[b"+", text.as_bytes(), b"\r\n"]);
    }

    /// `-text`. The first word is the code, like `ERR`. Line breaks, which would end it, become blanks.
    pub fn error(&mut self, text: &str) {
        self.n_errors += 1;
        let line = text.replace(['\r', '\n'], " ");
        self.push(&[b"-", line.as_bytes(), b"\r\n"]);
    }

    /// `:number`
    pub fn integer(&mut self, number: i64) {
        self.line(b':', number);
    }

    /// A string of any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.line(b'$', bytes.len());
        self.push(&[bytes, b"\r\n"]);
    }

    /// A text for people: of the type "verbatim" where the protocol has it.
    pub fn text(&mut self, text: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => {
                self.line(b'=', text.len() + 4);
                self.push(&[b"txt:", text.as_bytes(), b"\r\n"]);
            }
        }
    }

    /// Nothing.
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.push(&[b"$-1\r\n"]),
            Protocol::Resp3 => self.push(&[b"_\r\n"]),
        }
    }

    /// Begins an array of so many replies.
    pub fn array(&mut self, n: usize) {
        self.line(b'*', n);
    }

    /// Begins a map of so many pairs of replies: a flat array where the protocol has no maps.
    pub fn map(&mut self, n_pairs: usize) {
        match self.protocol {
            Protocol::Resp2 => self.line(b'*', n_pairs * 2),
            Protocol::Resp3 => self.line(b'%', n_pairs),
        }
    }
}
