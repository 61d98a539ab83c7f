//! The parser of requests: takes bytes as they come, in any pieces, and makes commands of them.
//!
//! A request is an array of bulk strings (`*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`) or an inline line (`GET k\r\n`). What a length
//! promises is never allocated before it has arrived, and no more is held than the bounds allow.

use thiserror::Error;

use super::commands::{ARGUMENT_BYTES, Commands};
use super::inline;

/// Arguments of one command at most.
const ARGUMENTS_MAX: i64 = 1 << 20;
/// Bytes of an inline line at most.
const INLINE_MAX: usize = 64 << 10;
/// Bytes of a line with a length at most: a sign, the digits of 64 bits, CR and LF, with room for leading zeros.
const LENGTH_LINE_MAX: usize = 32;

/// How much a client may send.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of one argument.
    pub bulk_bytes: usize,
    /// Bytes of what is not executed yet, with a word for each argument.
    pub query_bytes: usize,
}

/// Why a client is disconnected: after one of these nobody knows where the next command begins.
///
/// The texts are those of Redis where it has the case, because clients and their tests know them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The number after `*` is none, or too large.
    #[error("invalid multibulk length")]
    ArrayLength,
    /// The line after `*` has no end.
    #[error("too big mbulk count string")]
    ArrayLine,
    /// Something else than a bulk string inside of a command.
    #[error("expected '$', got '{}'", printable(*got))]
    NotBulk {
        /// Its first byte.
        got: u8,
    },
    /// The number after `$` is none, negative, or above the bound.
    #[error("invalid bulk length")]
    BulkLength,
    /// The line after `$` has no end.
    #[error("too big bulk count string")]
    BulkLine,
    /// A bulk string goes on behind its length.
    #[error("expected CRLF after a bulk string")]
    BulkEnd,
    /// An inline line has no end.
    #[error("too big inline request")]
    InlineLine,
    /// The quotes of an inline line do not close.
    #[error("unbalanced quotes in request")]
    InlineQuotes,
    /// More than the bound of what is not executed yet.
    #[error("query buffer limit reached")]
    QueryLimit,
}

fn printable(byte: u8) -> char {
    match byte {
        b' '..=b'~' => byte as char,
        _ => '?',
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Between commands.
    Start,
    /// Before the `$` of an argument; so many are to come.
    BulkHeader { arguments: i64 },
    /// Within an argument; so many bytes of it are to come.
    Bulk { arguments: i64, bytes: usize },
    /// Before the CRLF of an argument.
    BulkEnd { arguments: i64 },
    /// There was an error: nothing more is read.
    Failed(ProtocolError),
}

/// Where a client's stream of commands is.
#[derive(Clone, Debug)]
pub struct Parser {
    bounds: Bounds,
    state: State,
}

/// What a step used of the input, or that it needs more.
type Step = Result<Option<usize>, ProtocolError>;

impl Parser {
    /// At the beginning of a stream.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: State::Start,
        }
    }

    /// Goes on with input and adds what it completes to `into`. Returns how much was used; the rest, less than a line, is
    /// to be given again with what follows it.
    ///
    /// Given the same bytes in other pieces it makes the same commands, and the same error.
    ///
    /// # Errors
    /// What is wrong with the stream. Commands before the error are in `into`. It stays that error from then on.
    pub fn feed(&mut self, input: &[u8], into: &mut Commands) -> Result<usize, ProtocolError> {
        let mut used = 0;
        loop {
            let rest = &input[used..];
            let step = match self.state {
                State::Start => self.start(rest, into),
                State::BulkHeader { arguments } => self.bulk_header(rest, arguments),
                State::Bulk { arguments, bytes } => self.bulk(rest, arguments, bytes, into),
                State::BulkEnd { arguments } => self.bulk_end(rest, arguments, into),
                State::Failed(error) => Err(error),
            };
            match step {
                Ok(Some(n)) => used += n,
                Ok(None) => return Ok(used),
                Err(error) => {
                    self.state = State::Failed(error);
                    return Err(error);
                }
            }
        }
    }

    fn start(&mut self, input: &[u8], into: &mut Commands) -> Step {
        match input.first() {
            None => Ok(None),
            Some(b'*') => {
                let Some((number, used)) =
                    length_line(input, ProtocolError::ArrayLine, ProtocolError::ArrayLength)?
                else {
                    return Ok(None);
                };
                if number > ARGUMENTS_MAX {
                    return Err(ProtocolError::ArrayLength);
                }
                // An array of none, or "null", is no command and no error.
                if number > 0 {
                    self.state = State::BulkHeader { arguments: number };
                }
                Ok(Some(used))
            }
            Some(_) => self.inline(input, into),
        }
    }

    fn inline(&self, input: &[u8], into: &mut Commands) -> Step {
        let within = &input[..input.len().min(INLINE_MAX)];
        let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
            let too_long = input.len() >= INLINE_MAX;
            return if too_long {
                Err(ProtocolError::InlineLine)
            } else {
                Ok(None)
            };
        };
        self.admit(end, into)?;
        let words = inline::split(&input[..end], into).map_err(|_| ProtocolError::InlineQuotes)?;
        // Only now is it known how many words there are.
        self.admit(0, into)?;
        if words > 0 {
            into.end_command();
        }
        Ok(Some(end + 1))
    }

    fn bulk_header(&mut self, input: &[u8], arguments: i64) -> Step {
        match input.first() {
            None => return Ok(None),
            Some(b'$') => {}
            Some(got) => return Err(ProtocolError::NotBulk { got: *got }),
        }
        let Some((number, used)) =
            length_line(input, ProtocolError::BulkLine, ProtocolError::BulkLength)?
        else {
            return Ok(None);
        };
        let bytes = usize::try_from(number).map_err(|_| ProtocolError::BulkLength)?;
        if bytes > self.bounds.bulk_bytes {
            return Err(ProtocolError::BulkLength);
        }
        self.state = State::Bulk { arguments, bytes };
        Ok(Some(used))
    }

    fn bulk(&mut self, input: &[u8], arguments: i64, bytes: usize, into: &mut Commands) -> Step {
        let part = &input[..input.len().min(bytes)];
        self.admit(part.len() + ARGUMENT_BYTES, into)?;
        into.extend(part);
        match bytes - part.len() {
            0 => self.state = State::BulkEnd { arguments },
            _ if part.is_empty() => return Ok(None),
            bytes => self.state = State::Bulk { arguments, bytes },
        }
        Ok(Some(part.len()))
    }

    fn bulk_end(&mut self, input: &[u8], arguments: i64, into: &mut Commands) -> Step {
        match input {
            [b'\r', b'\n', ..] => {}
            [] | [b'\r'] => return Ok(None),
            _ => return Err(ProtocolError::BulkEnd),
        }
        into.end_argument();
        self.state = if arguments > 1 {
            State::BulkHeader {
                arguments: arguments - 1,
            }
        } else {
            into.end_command();
            State::Start
        };
        Ok(Some(2))
    }

    /// Whether so many more bytes may be held.
    fn admit(&self, bytes: usize, into: &Commands) -> Result<(), ProtocolError> {
        if into.held_bytes() + bytes > self.bounds.query_bytes {
            return Err(ProtocolError::QueryLimit);
        }
        Ok(())
    }
}

/// The number of a line like `*3\r\n`, and how long the line is; nothing if its end has not come.
fn length_line(
    input: &[u8],
    too_long: ProtocolError,
    invalid: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    let within = &input[..input.len().min(LENGTH_LINE_MAX)];
    let Some(end) = within.iter().position(|byte| *byte == b'\n') else {
        return if input.len() >= LENGTH_LINE_MAX {
            Err(too_long)
        } else {
            Ok(None)
        };
    };
    let digits = input[1..end].strip_suffix(b"\r").ok_or(invalid)?;
    Ok(Some((integer(digits).ok_or(invalid)?, end + 1)))
}

/// A decimal number without a plus sign.
fn integer(text: &[u8]) -> Option<i64> {
    if text.first() == Some(&b'+') {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}
