//! Clients that take more than they may, or go without a word: memory stays bounded and the others are served.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use hitm_testkit::skip;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::server::{Server, read_exactly, read_to_end, text};

/// Memory of a server that keeps its bounds, in KiB: what it has at the start and a little more than the bounds below.
const BOUNDED_KIB: u64 = 64 << 10;

/// Waits until INFO says at least so much.
fn wait_for(server: &Server, name: &str, least: u64) {
    let began = Instant::now();
    while server.info(name) < least {
        let waited = began.elapsed();
        assert!(
            waited < Duration::from_secs(20),
            "{name} stays below {least}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let server = Server::start(&["--client-output-buffer-limit", "4mb"]);
    let value = "v".repeat(100_000);
    assert_eq!(
        server.ask(format!("MSET k {value} k2 {value}\r\n").as_bytes()),
        protocol_error_inline()
    );
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n{value}\r\n");
    assert_eq!(server.ask(set.as_bytes()), "+OK\r\n");
    let mut silent = server.connect();
    // A gigabyte of replies. The server closes in the middle of it.
    for _ in 0..100 {
        if silent
            .write_all("GET k\r\n".repeat(100).as_bytes())
            .is_err()
        {
            break;
        }
    }
    wait_for(&server, "client_output_buffer_limit_disconnections", 1);
    server.assert_serves();
    let peak = server.peak_kib();
    assert!(peak < BOUNDED_KIB, "{peak} KiB");
}

fn protocol_error_inline() -> &'static str {
    "-ERR Protocol error: too big inline request\r\n"
}

#[test]
fn one_command_with_a_huge_reply_is_not_built() {
    let server = Server::start(&["--client-output-buffer-limit", "4mb"]);
    let value = "v".repeat(50_000);
    assert_eq!(
        server.ask(format!("SET k {value}\r\n").as_bytes()),
        "+OK\r\n"
    );
    // Five gigabytes.
    let mut mget = b"*100001\r\n$4\r\nMGET\r\n".to_vec();
    mget.extend(b"$1\r\nk\r\n".repeat(100_000));
    let answer = server.ask(&mget);
    // What was built before the bound may or may not arrive.
    assert!(answer.len() <= 4 << 20, "{} bytes", answer.len());
    assert_eq!(server.info("client_output_buffer_limit_disconnections"), 1);
    let peak = server.peak_kib();
    assert!(peak < BOUNDED_KIB, "{peak} KiB");
}

#[test]
fn promised_lengths_take_no_memory() {
    let server = Server::start(&["--proto-max-bulk-len", "1gb"]);
    let promises = [
        "*1\r\n$1073741824\r\nthe rest never comes",
        "*1048576\r\n$4\r\nMGET\r\n",
    ];
    let clients: Vec<TcpStream> = (0..100)
        .map(|i| {
            let mut client = server.connect();
            client.write_all(promises[i % 2].as_bytes()).unwrap();
            client
        })
        .collect();
    // By then all of them were read: the server serves in turn.
    wait_for(&server, "total_reads_processed", 100);
    let peak = server.peak_kib();
    assert!(peak < BOUNDED_KIB, "{peak} KiB");
    drop(clients);
    server.wait_for_clients(1);
}

#[test]
fn more_than_the_query_buffer_is_an_error() {
    let server = Server::start(&[
        "--client-query-buffer-limit",
        "1mb",
        "--proto-max-bulk-len",
        "1gb",
    ]);
    let mut client = server.connect();
    client.write_all(b"*1\r\n$1073741824\r\n").unwrap();
    let part = vec![b'x'; 64 << 10];
    while client.write_all(&part).is_ok() {}
    // The server did not take what was on its way, so the error may be lost with the connection.
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    let expected = "-ERR Protocol error: query buffer limit reached\r\n";
    assert!(expected.starts_with(&text(answer)));
    assert_eq!(server.info("client_query_buffer_limit_disconnections"), 1);

    // Many small arguments count too.
    let mut many = b"*1000000\r\n".to_vec();
    many.extend(b"$0\r\n\r\n".repeat(140_000));
    assert!(expected.starts_with(&server.ask(&many)));
    assert_eq!(server.info("client_query_buffer_limit_disconnections"), 2);
    let peak = server.peak_kib();
    assert!(peak < BOUNDED_KIB, "{peak} KiB");
}

#[test]
fn all_clients_together_have_a_bound() {
    let server = Server::start(&["--maxmemory-clients", "4mb", "--io-threads", "1"]);
    let small = &mut server.connect();
    small.write_all(b"PING\r\n").unwrap();
    assert_eq!(read_exactly(small, 7), "+PONG\r\n");
    let mut large: Vec<TcpStream> = (0..16).map(|_| server.connect()).collect();
    let mut part = b"*1\r\n$10000000\r\n".to_vec();
    part.resize(1 << 20, b'x');
    for client in &mut large {
        // Some are disconnected meanwhile.
        let _ = client.write_all(&part);
    }
    wait_for(&server, "evicted_clients", 1);
    small.write_all(b"PING\r\n").unwrap();
    assert_eq!(read_exactly(small, 7), "+PONG\r\n");
    let peak = server.peak_kib();
    assert!(peak < BOUNDED_KIB, "{peak} KiB");
}

#[test]
fn the_key_space_has_a_bound() {
    let server = Server::start(&["--maxmemory", "1mb"]);
    let mut sent = String::new();
    for i in 0..100 {
        sent.push_str(&format!("SET key:{i} {}\r\n", "v".repeat(20_000)));
    }
    let answers = server.ask(sent.as_bytes());
    let taken = answers.matches("+OK").count();
    assert!((50..60).contains(&taken), "{taken}");
    let refused = answers
        .matches("-OOM command not allowed when used memory > 'maxmemory'.")
        .count();
    assert_eq!(taken + refused, 100);
    assert_eq!(
        server.ask(b"EXISTS key:0\r\nINCR n\r\nDEL key:0 key:1\r\nSET k v\r\n"),
        ":1\r\n-OOM command not allowed when used memory > 'maxmemory'.\r\n:2\r\n+OK\r\n"
    );
}

#[test]
fn a_half_closed_connection_is_answered_to_the_end() {
    let server = Server::start(&[]);
    assert_eq!(
        server.ask(b"PING\r\nECHO end\r\n"),
        "+PONG\r\n$3\r\nend\r\n"
    );
    // What is not whole is no command.
    assert_eq!(
        server.ask(b"PING\r\n*2\r\n$4\r\nECHO\r\n$10\r\nhalf"),
        "+PONG\r\n"
    );
    assert_eq!(server.ask(b""), "");
    // Replies that are larger than what sockets take at once.
    let value = "v".repeat(60_000);
    let mut sent = format!("SET k {value}\r\n");
    sent.push_str(&"GET k\r\n".repeat(300));
    let answer = server.ask(sent.as_bytes());
    assert_eq!(answer.len(), 5 + 300 * (8 + 60_000 + 2));
    server.wait_for_clients(1);
}

#[test]
fn clients_that_vanish_leave_nothing() {
    let server = Server::start(&[]);
    let value = "v".repeat(60_000);
    assert_eq!(
        server.ask(format!("SET k {value}\r\n").as_bytes()),
        "+OK\r\n"
    );
    for _ in 0..50 {
        let mut client = server.connect();
        client.write_all("GET k\r\n".repeat(50).as_bytes()).unwrap();
        // With replies unread in it, closing the socket resets the connection.
        drop(client);
    }
    server.assert_serves();
    server.wait_for_clients(1);
}

#[test]
fn a_quitter_that_reads_late_gets_all_replies() {
    let server = Server::start(&[]);
    let value = "v".repeat(60_000);
    assert_eq!(
        server.ask(format!("SET k {value}\r\n").as_bytes()),
        "+OK\r\n"
    );
    let mut client = server.connect();
    let sent = format!(
        "{}QUIT\r\n{}",
        "GET k\r\n".repeat(200),
        "PING\r\n".repeat(100)
    );
    client.write_all(sent.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let answer = text(read_to_end(&mut client));
    assert_eq!(answer.len(), 200 * (8 + 60_000 + 2) + 5);
    assert!(answer.ends_with("\r\n+OK\r\n"));
}

#[test]
fn one_client_too_many_is_told() {
    let server = Server::start(&["--maxclients", "3"]);
    let mut clients: Vec<TcpStream> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.write_all(b"PING\r\n").unwrap();
        assert_eq!(read_exactly(client, 7), "+PONG\r\n");
    }
    let refused = text(read_to_end(&mut server.connect()));
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
    clients[0].shutdown(Shutdown::Both).unwrap();
    clients.remove(0);
    // Its place is free in a moment.
    let began = Instant::now();
    while server.ask(b"PING\r\n") != "+PONG\r\n" {
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn a_thousand_connections() {
    const N: usize = 1000;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let needed = N as u64 + 100;
    if hard < needed {
        skip!("at most {hard} open files are allowed here, {needed} are needed");
    }
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard).unwrap();
    let server = Server::start(&["--io-threads", "4"]);
    let mut clients: Vec<TcpStream> = (0..N).map(|_| server.connect()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        client
            .write_all(format!("SET key:{i} {i}\r\nGET key:{i}\r\n").as_bytes())
            .unwrap();
    }
    for (i, client) in clients.iter_mut().enumerate() {
        let number = i.to_string();
        let expected = format!("+OK\r\n${}\r\n{number}\r\n", number.len());
        assert_eq!(read_exactly(client, expected.len()), expected);
    }
    assert_eq!(server.info("connected_clients"), N as u64 + 1);
    let info = server.ask(b"INFO threads\r\n");
    for (clients, _, _) in crate::stats::threads(&info).into_iter().skip(1) {
        assert!((250..=251).contains(&clients), "{info}");
    }
    drop(clients);
    server.wait_for_clients(1);
    let peak = server.peak_kib();
    assert!(peak < BOUNDED_KIB, "{peak} KiB");
}
