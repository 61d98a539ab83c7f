//! The bytes of the protocol: frames of requests and replies. docs/doradd-rpc.md is the page for who writes a client in
//! another language; nothing here does input or output.
//!
//! All integers are little-endian. A frame begins with the number of bytes that follow; each kind of frame has one
//! length, so a wrong one is told from the first four bytes, and nobody can make the server wait for a gigabyte.

use thiserror::Error;

use crate::log::KEYS;

/// Bytes of the longest request, its length field included.
pub const MAX_REQUEST: usize = TRANSACTION;
/// Bytes of every reply, its length field included.
pub const REPLY: usize = 32;

const LENGTH: usize = 4;
const TRANSACTION: usize = 56;
const STATE: usize = 16;
const KIND_TRANSACTION: u8 = 1;
const KIND_STATE: u8 = 2;

/// A transaction as it comes: its rows and its write mask are not checked yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Body {
    /// Numbers of rows. One may stand there more than once.
    pub keys: [u32; KEYS],
    /// Bit `i` says that the row of key `i` is written.
    pub writes: u16,
}

/// The client's number of a request, given back with the reply. The server does not look at it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId(pub u64);

/// A frame from a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The client's number.
    pub id: RequestId,
    /// What it asks for.
    pub ask: Ask,
}

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// To be executed at its place in the order.
    Execute(Body),
    /// How many transactions were accepted before this frame, and the digest of their results.
    State,
}

/// Bytes that are no frame; where the next one begins cannot be known, so the connection ends.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Malformed {
    /// No request has this length.
    #[error("a frame of {0} bytes: requests have 52 (a transaction) or 12 (the state)")]
    Length(u32),
    /// The kind does not belong to the length.
    #[error("a frame of kind {0}: requests are of kind 1 with 52 bytes or 2 with 12")]
    Kind(u8),
    /// A byte that must be zero is not.
    #[error("a byte that must be 0 is {0}")]
    Reserved(u8),
    /// The connection ended within a frame.
    #[error("the connection ended within a frame")]
    Truncated,
}

impl Malformed {
    /// The number of this fault in a reply's `detail`.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Length(_) => 1,
            Self::Kind(_) => 2,
            Self::Reserved(_) => 3,
            Self::Truncated => 4,
        }
    }
}

/// Reads the frame that `bytes` begin with: the request and its bytes, or nothing if it is not whole yet.
///
/// # Errors
/// As soon as the bytes that are there cannot become a frame.
///
/// ```
/// use doradd_workloads::rpc::wire::{Ask, Request, RequestId, parse};
///
/// let mut bytes = Vec::new();
/// Request { id: RequestId(7), ask: Ask::State }.encode(&mut bytes);
/// let (request, length) = parse(&bytes)?.unwrap();
/// assert_eq!((request.id, length), (RequestId(7), 16));
/// assert!(parse(&bytes[..15])?.is_none());
/// # Ok::<(), doradd_workloads::rpc::wire::Malformed>(())
/// ```
pub fn parse(bytes: &[u8]) -> Result<Option<(Request, usize)>, Malformed> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length);
    let kind_expected = match LENGTH + length as usize {
        TRANSACTION => KIND_TRANSACTION,
        STATE => KIND_STATE,
        _ => return Err(Malformed::Length(length)),
    };
    match rest.first() {
        Some(kind) if *kind != kind_expected => return Err(Malformed::Kind(*kind)),
        _ => {}
    }
    let total = LENGTH + length as usize;
    let Some(frame) = bytes.get(..total) else {
        return Ok(None);
    };
    let ask = if kind_expected == KIND_TRANSACTION {
        reserved(&frame[5..6])?;
        Ask::Execute(Body {
            writes: u16::from_le_bytes(fixed(frame, 6)),
            keys: std::array::from_fn(|i| u32::from_le_bytes(fixed(frame, 16 + 4 * i))),
        })
    } else {
        reserved(&frame[5..8])?;
        Ask::State
    };
    let id = RequestId(u64::from_le_bytes(fixed(frame, 8)));
    Ok(Some((Request { id, ask }, total)))
}

fn reserved(bytes: &[u8]) -> Result<(), Malformed> {
    match bytes.iter().find(|byte| **byte != 0) {
        Some(byte) => Err(Malformed::Reserved(*byte)),
        None => Ok(()),
    }
}

/// `N` bytes of a frame that is long enough.
fn fixed<const N: usize>(frame: &[u8], at: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&frame[at..at + N]);
    bytes
}

impl Request {
    /// Appends the request's frame.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match &self.ask {
            Ask::Execute(body) => {
                to.extend(((TRANSACTION - LENGTH) as u32).to_le_bytes());
                to.extend([KIND_TRANSACTION, 0]);
                to.extend(body.writes.to_le_bytes());
                to.extend(self.id.0.to_le_bytes());
                for key in body.keys {
                    to.extend(key.to_le_bytes());
                }
            }
            Ask::State => {
                to.extend(((STATE - LENGTH) as u32).to_le_bytes());
                to.extend([KIND_STATE, 0, 0, 0]);
                to.extend(self.id.0.to_le_bytes());
            }
        }
    }
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Status {
    /// It was executed: its place in the order, and its result.
    Executed = 0,
    /// The answer to [`Ask::State`]: how many transactions were accepted before, and the digest of their results.
    State = 1,
    /// It names a row that there is not, or writes a key that there is not: it got no place in the order. `detail` is the
    /// wrong key's index, 255 for the wrong write.
    Refused = 2,
    /// It has its place in the order, and its body panicked there.
    Panicked = 3,
    /// It has its place in the order, and was not run there: a row was poisoned by a panic before, or the server failed.
    NotRun = 4,
    /// The bytes after the last answered request are no frame: `detail` is [`Malformed::code`]. Nothing comes after it.
    Malformed = 128,
    /// The server ends. What it has not answered before this frame was not accepted. Nothing comes after it.
    Goodbye = 129,
}

/// A frame from the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reply {
    /// What became of the request.
    pub status: Status,
    /// More about the status, 0 if there is nothing to say.
    pub detail: u8,
    /// The client's number; 0 in [`Status::Malformed`] and [`Status::Goodbye`], which answer no request.
    pub id: RequestId,
    /// The place in the order, from 0; for [`Status::State`] the number of transactions before it.
    pub sequence: u64,
    /// The result of the body; for [`Status::State`] the digest of the results.
    pub result: u64,
}

/// Bytes that are no reply.
#[derive(Error, Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NoReply {
    /// Replies have one length.
    #[error("a frame of {0} bytes: replies have 28")]
    Length(u32),
    /// No such status.
    #[error("a reply of status {0}, which there is not")]
    Status(u8),
}

impl Reply {
    /// The reply's frame.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; REPLY] {
        let mut frame = [0; REPLY];
        frame[..4].copy_from_slice(&((REPLY - LENGTH) as u32).to_le_bytes());
        frame[4] = self.status as u8;
        frame[5] = self.detail;
        frame[8..16].copy_from_slice(&self.id.0.to_le_bytes());
        frame[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        frame[24..].copy_from_slice(&self.result.to_le_bytes());
        frame
    }

    /// Reads a reply's frame.
    ///
    /// # Errors
    /// If it is none.
    pub fn from_bytes(frame: &[u8; REPLY]) -> Result<Self, NoReply> {
        let length = u32::from_le_bytes(fixed(frame, 0));
        if length as usize != REPLY - LENGTH {
            return Err(NoReply::Length(length));
        }
        Ok(Self {
            status: Status::of(frame[4]).ok_or(NoReply::Status(frame[4]))?,
            detail: frame[5],
            id: RequestId(u64::from_le_bytes(fixed(frame, 8))),
            sequence: u64::from_le_bytes(fixed(frame, 16)),
            result: u64::from_le_bytes(fixed(frame, 24)),
        })
    }
}

impl Status {
    pub(crate) fn of(byte: u8) -> Option<Self> {
        let all = [
            Self::Executed,
            Self::State,
            Self::Refused,
            Self::Panicked,
            Self::NotRun,
            Self::Malformed,
            Self::Goodbye,
        ];
        all.into_iter().find(|status| *status as u8 == byte)
    }

    /// Whether the request has a place in the order.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Executed | Self::Panicked | Self::NotRun)
    }
}
