//! What each command answers: conversations as text, through one `check`.

use std::io::Write as _;
use std::net::Shutdown;

use crate::server::{Server, read_to_end, text};

/// Holds a conversation with a new server: `> ` is a line that the client sends, `< ` one that the server answers.
///
/// All is sent at once, then byte by byte to another server, then to one that reads and writes byte by byte: the answers are
/// the same.
fn check(conversation: &str) {
    let lines: Vec<&str> = conversation
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let marked = |mark: &str| -> String {
        let lines = lines.iter().filter_map(|line| line.strip_prefix(mark));
        lines
            .map(|line| format!("{}\r\n", line.strip_prefix(' ').unwrap_or(line)))
            .collect()
    };
    let (sent, expected) = (marked(">"), marked("<"));
    for (at_once, chunk) in [(sent.len(), "16kb"), (1, "16kb"), (sent.len(), "1")] {
        let server = Server::start(&["--io-threads", "2", "--io-chunk", chunk]);
        let mut stream = server.connect();
        for part in sent.as_bytes().chunks(at_once) {
            stream.write_all(part).unwrap();
        }
        stream.shutdown(Shutdown::Write).unwrap();
        let answered = text(read_to_end(&mut stream));
        assert_eq!(
            answered, expected,
            "{at_once} bytes at once, {chunk} read at once, of {sent}"
        );
    }
}

#[test]
fn connections() {
    check(
        "
        > PING
        < +PONG
        > ping hello
        < $5
        < hello
        > PING a b
        < -ERR wrong number of arguments for 'ping' command
        > ECHO \"a b\"
        < $3
        < a b
        > SELECT 0
        < +OK
        > SELECT 1
        < -ERR DB index is out of range
        > SELECT zero
        < -ERR value is not an integer or out of range
        > CLIENT GETNAME
        < $-1
        > CLIENT SETNAME me
        < +OK
        > CLIENT GETNAME
        < $2
        < me
        > CLIENT SETNAME 'two words'
        < -ERR Client names cannot contain spaces, newlines or special characters.
        > CLIENT SETINFO lib-name mine
        < +OK
        > CLIENT SETINFO colour blue
        < -ERR Unrecognized option 'colour'
        > CLIENT ID
        < :1
        > CLIENT ID now
        < -ERR wrong number of arguments for 'client|id' command
        > CLIENT KILL all
        < -ERR CLIENT KILL is not supported by this server, SETNAME, GETNAME, SETINFO, ID and INFO are
        > FROBNICATE a b
        < -ERR unknown command 'FROBNICATE', with args beginning with: 'a' 'b'
        > QUIT
        < +OK
        > PING
        ",
    );
}

#[test]
fn strings() {
    check(
        "
        > GET k
        < $-1
        > SET k v
        < +OK
        > GET k
        < $1
        < v
        > *3
        > $3
        > SET
        > $1
        > k
        > $0
        >
        < +OK
        > GET k
        < $0
        <
        > MSET a 1 b 2
        < +OK
        > MSET a 1 b
        < -ERR wrong number of arguments for 'mset' command
        > MGET a none b
        < *3
        < $1
        < 1
        < $-1
        < $1
        < 2
        > EXISTS a a none
        < :2
        > DEL a none b
        < :2
        > DBSIZE
        < :1
        > FLUSHALL
        < +OK
        > DBSIZE
        < :0
        > GET
        < -ERR wrong number of arguments for 'get' command
        ",
    );
}

#[test]
fn set_does_all_of_an_option_or_nothing() {
    check(
        "
        > SET k 1 XX
        < $-1
        > SET k 1 NX
        < +OK
        > SET k 2 NX
        < $-1
        > SET k 2 xx
        < +OK
        > SET k 3 GET
        < $1
        < 2
        > SET k 4 NX GET
        < $1
        < 3
        > SET new 1 NX GET
        < $-1
        > SET k 5 NX XX
        < -ERR syntax error
        > SET k 5 SOON
        < -ERR syntax error
        > SET k 5 EX 100
        < -ERR SET option 'EX' is not supported by this server, NX, XX and GET are
        > MGET k new
        < *2
        < $1
        < 3
        < $1
        < 1
        ",
    );
}

#[test]
fn incr_takes_integers_only() {
    check(
        "
        > INCR n
        < :1
        > INCR n
        < :2
        > SET n 9223372036854775806
        < +OK
        > INCR n
        < :9223372036854775807
        > INCR n
        < -ERR increment or decrement would overflow
        > SET n -1
        < +OK
        > INCR n
        < :0
        > SET n +1
        < +OK
        > INCR n
        < -ERR value is not an integer or out of range
        > SET n 01
        < +OK
        > INCR n
        < -ERR value is not an integer or out of range
        > SET n \"\"
        < +OK
        > INCR n
        < -ERR value is not an integer or out of range
        ",
    );
}

#[test]
fn hello_changes_the_protocol_or_nothing() {
    check(
        "
        > HELLO 4
        < -NOPROTO unsupported protocol version
        > HELLO three
        < -ERR Protocol version is not an integer or out of range
        > HELLO 3 AUTH me secret
        < -ERR AUTH is not supported: this server has no users
        > HELLO 3 SETNAME
        < -ERR syntax error
        > GET none
        < $-1
        > HELLO 3 SETNAME me
        < %7
        < $6
        < server
        < $8
        < ioserver
        < $7
        < version
        < $5
        < 0.1.0
        < $5
        < proto
        < :3
        < $2
        < id
        < :1
        < $4
        < mode
        < $10
        < standalone
        < $4
        < role
        < $6
        < master
        < $7
        < modules
        < *0
        > GET none
        < _
        > CONFIG GET PORTS
        < %0
        > CONFIG GET io-thr?ads max*s
        < %3
        < $10
        < io-threads
        < $1
        < 2
        < $10
        < maxclients
        < $5
        < 10000
        < $17
        < maxmemory-clients
        < $9
        < 536870912
        > CLIENT GETNAME
        < $2
        < me
        > INFO keyspace
        < =16
        < txt:# Keyspace
        <
        ",
    );
}

#[test]
fn introspection() {
    check(
        "
        > COMMAND COUNT
        < :20
        > COMMAND INFO get none
        < *2
        < *6
        < $3
        < get
        < :2
        < *2
        < +readonly
        < +fast
        < :1
        < :1
        < :1
        < $-1
        > COMMAND DOCS echo none
        < *2
        < $4
        < echo
        < *4
        < $7
        < summary
        < $21
        < Returns its argument.
        < $5
        < group
        < $10
        < connection
        > COMMAND GETKEYS get a
        < -ERR COMMAND GETKEYS is not supported by this server, COUNT, DOCS, INFO and LIST are
        > CONFIG SET maxclients 1
        < -ERR CONFIG SET is not supported by this server, GET and RESETSTAT are; settings are flags of its command line
        > CONFIG GET save
        < *2
        < $4
        < save
        < $0
        <
        > SET k v
        < +OK
        > INFO KEYSPACE
        < $44
        < # Keyspace
        < db0:keys=1,expires=0,avg_ttl=0
        <
        > INFO none
        < $0
        <
        ",
    );
}

#[test]
fn a_server_that_is_told_to_ends() {
    let server = Server::start(&[]);
    assert_eq!(server.ask(b"SHUTDOWN NOSAVE\r\n"), "");
    assert_eq!(server.wait(), 0);
}

#[test]
fn a_port_that_is_taken_is_an_error() {
    let server = Server::start(&[]);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_ioserver"))
        .args(["--port", &server.port()])
        .output()
        .unwrap();
    let stderr = text(output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot listen on 127.0.0.1:"), "{stderr}");
    assert!(stderr.contains("--port 0"), "{stderr}");
}
