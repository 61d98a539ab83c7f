//! Inline commands: a line of words, as a person types it into telnet.
//!
//! Words are parted by white space. In double quotes `\n \r \t \b \a \\ \" \xHH` are escapes; in single quotes `\'` is.
//! A closing quote must be followed by white space or the end of the line.

use super::commands::Commands;

/// Quotes that do not close, or close in the middle of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced;

/// Adds a line's words as arguments; the caller ends the command. Returns how many there are.
pub(crate) fn split(line: &[u8], into: &mut Commands) -> Result<usize, Unbalanced> {
    let mut rest = line.trim_ascii();
    let mut n_words = 0;
    while let Some(first) = rest.first() {
        rest = match first {
            b'"' | b'\'' => quoted(&rest[1..], *first, into)?,
            _ => bare(rest, into)?,
        };
        into.end_argument();
        n_words += 1;
        rest = rest.trim_ascii_start();
    }
    Ok(n_words)
}

/// A word that does not begin with a quote; it may have quoted parts.
fn bare<'a>(mut rest: &'a [u8], into: &mut Commands) -> Result<&'a [u8], Unbalanced> {
    loop {
        let end = rest
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || matches!(byte, b'"' | b'\''))
            .unwrap_or(rest.len());
        into.extend(&rest[..end]);
        match rest.get(end) {
            Some(quote @ (b'"' | b'\'')) => rest = quoted(&rest[end + 1..], *quote, into)?,
            _ => return Ok(&rest[end..]),
        }
        if rest.first().is_none_or(u8::is_ascii_whitespace) {
            return Ok(rest);
        }
    }
}

/// What follows an opening quote, up to the closing one.
fn quoted<'a>(mut rest: &'a [u8], quote: u8, into: &mut Commands) -> Result<&'a [u8], Unbalanced> {
    loop {
        let end = rest
            .iter()
            .position(|byte| *byte == quote || *byte == b'\\')
            .ok_or(Unbalanced)?;
        into.extend(&rest[..end]);
        rest = &rest[end..];
        if rest[0] == quote {
            rest = &rest[1..];
            let closed = rest.first().is_none_or(u8::is_ascii_whitespace);
            return if closed { Ok(rest) } else { Err(Unbalanced) };
        }
        let (byte, used) = if quote == b'"' {
            escape(rest)
        } else {
            apostrophe(rest)
        };
        into.extend(&[byte]);
        rest = &rest[used..];
    }
}

/// The byte that an escape in double quotes stands for, and how long the escape is.
fn escape(text: &[u8]) -> (u8, usize) {
    match *text {
        [_, b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            (nibble(high) << 4 | nibble(low), 4)
        }
        [_, b'n', ..] => (b'\n', 2),
        [_, b'r', ..] => (b'\r', 2),
        [_, b't', ..] => (b'\t', 2),
        [_, b'b', ..] => (8, 2),
        [_, b'a', ..] => (7, 2),
        [_, other, ..] => (other, 2),
        _ => (b'\\', 1),
    }
}

/// The same in single quotes, where only the quote itself can be escaped.
fn apostrophe(text: &[u8]) -> (u8, usize) {
    match text {
        [_, b'\'', ..] => (b'\'', 2),
        _ => (b'\\', 1),
    }
}

fn nibble(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
