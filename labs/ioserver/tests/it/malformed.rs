//! Streams that are no commands: each ends in an error reply or a closed connection, and the others are served on.

use std::io::Write as _;

use crate::server::{Server, read_to_end, text};

/// Sends bytes and keeps the connection open: it is the server that has to close it, after these replies.
fn check(server: &Server, sent: &[u8], expected: &str) {
    let shown = String::from_utf8_lossy(sent.get(..60).unwrap_or(sent)).into_owned();
    let mut stream = server.connect();
    // The server may close before it has taken everything.
    let _ = stream.write_all(sent);
    let answered = text(read_to_end(&mut stream));
    assert_eq!(answered, expected, "{shown:?}");
    server.assert_serves();
}

fn protocol_error(text: &str) -> String {
    format!("-ERR Protocol error: {text}\r\n")
}

#[test]
fn lengths() {
    let server = Server::start(&["--proto-max-bulk-len", "1mb"]);
    let cases = [
        ("*x\r\n", "invalid multibulk length"),
        ("*+1\r\n", "invalid multibulk length"),
        ("* 1\r\n", "invalid multibulk length"),
        ("*\r\n", "invalid multibulk length"),
        ("*1\n", "invalid multibulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*9223372036854775808\r\n", "invalid multibulk length"),
        (
            "*99999999999999999999999999999999999\r\n",
            "too big mbulk count string",
        ),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$-9223372036854775808\r\n", "invalid bulk length"),
        ("*1\r\n$1048577\r\n", "invalid bulk length"),
        ("*1\r\n$9223372036854775807\r\n", "invalid bulk length"),
        ("*1\r\n$4x\r\nPING\r\n", "invalid bulk length"),
        (
            "*1\r\n$00000000000000000000000000000000004\r\n",
            "too big bulk count string",
        ),
    ];
    for (sent, expected) in cases {
        check(&server, sent.as_bytes(), &protocol_error(expected));
    }
}

#[test]
fn structure() {
    let server = Server::start(&[]);
    let cases: [(&[u8], &str); 8] = [
        (b"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'"),
        (b"*2\r\n$4\r\nPING\r\n:5\r\n", "expected '$', got ':'"),
        (b"*1\r\n\x00", "expected '$', got '?'"),
        (
            b"*1\r\n$4\r\nPINGPONG\r\n",
            "expected CRLF after a bulk string",
        ),
        (b"*1\r\n$4\r\nPING\rX", "expected CRLF after a bulk string"),
        (b"SET k \"v\r\n", "unbalanced quotes in request"),
        (b"SET k 'v'x\r\n", "unbalanced quotes in request"),
        (b"SET k v\"\\x4\r\n", "unbalanced quotes in request"),
    ];
    for (sent, expected) in cases {
        check(&server, sent, &protocol_error(expected));
    }
    check(
        &server,
        &[b'a'; 65536],
        &protocol_error("too big inline request"),
    );
}

#[test]
fn what_came_before_is_answered_first() {
    let server = Server::start(&[]);
    check(
        &server,
        b"PING\r\n*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n*1\r\n$-7\r\nPING\r\n",
        &format!(
            "+PONG\r\n$2\r\nhi\r\n{}",
            protocol_error("invalid bulk length")
        ),
    );
    assert_eq!(server.info("total_error_replies"), 1);
}

#[test]
fn nothing_is_no_command() {
    let server = Server::start(&[]);
    let sent = b"\r\n\n*0\r\n*-1\r\n*-9223372036854775808\r\n   \r\nPING\r\n";
    assert_eq!(server.ask(sent), "+PONG\r\n");
}

#[test]
fn a_browser_is_disconnected() {
    let server = Server::start(&[]);
    let sent = b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET k v\r\n";
    check(
        &server,
        sent,
        "-ERR unknown command 'POST', with args beginning with: '/' 'HTTP/1.1'\r\n",
    );
    assert_eq!(server.ask(b"DBSIZE\r\n"), ":0\r\n");
}

#[test]
fn an_error_repeats_little_and_no_line_breaks() {
    let server = Server::start(&[]);
    let mut sent = b"*2\r\n$5\r\nA\r\n+B\r\n$10000\r\n".to_vec();
    sent.extend([b'z'; 10_000]);
    sent.extend(b"\r\n");
    let answer = server.ask(&sent);
    let expected = format!(
        "-ERR unknown command 'A??+B', with args beginning with: '{}'\r\n",
        "z".repeat(64)
    );
    assert_eq!(answer, expected);
}
