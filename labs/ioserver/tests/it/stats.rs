//! INFO tells the same of the same work, in each layout of the counts.

use std::io::Write as _;

use crate::server::{Server, read_exactly};

/// Lines `io_thread_N:clients=C,reads=R,writes=W` as numbers.
pub(crate) fn threads(info: &str) -> Vec<(u64, u64, u64)> {
    let number = |word: &str, name: &str| -> u64 {
        let (key, value) = word.split_once('=').unwrap();
        assert_eq!(key, name);
        value.parse().unwrap()
    };
    let lines = info.lines().filter(|line| line.starts_with("io_thread_"));
    let parse = |(i, line): (usize, &str)| {
        let (name, rest) = line.split_once(':').unwrap();
        assert_eq!(name, format!("io_thread_{i}"));
        let words: Vec<&str> = rest.split(',').collect();
        let [clients, reads, writes] = words.as_slice() else {
            panic!("{line}")
        };
        (
            number(clients, "clients"),
            number(reads, "reads"),
            number(writes, "writes"),
        )
    };
    lines.enumerate().map(parse).collect()
}

/// Three clients on three threads, so many pings each, one at a time: each is one read and one write.
fn check(flags: &[&str]) {
    const PINGS: u64 = 50;
    let mut words = vec!["--io-threads", "3"];
    words.extend(flags);
    let server = Server::start(&words);
    let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for (i, client) in clients.iter_mut().enumerate() {
        for _ in 0..PINGS * (i as u64 + 1) {
            client.write_all(b"PING\r\n").unwrap();
            assert_eq!(read_exactly(client, 7), "+PONG\r\n");
        }
    }
    let client = &mut clients[0];
    client.write_all(b"INFO threads\r\n").unwrap();
    let header = read_exactly(client, 5);
    let length: usize = header.trim_start_matches('$').trim_end().parse().unwrap();
    let info = read_exactly(client, length + 2);
    let by_thread = threads(&info);
    assert_eq!(by_thread.len(), 4, "{info}");
    assert_eq!(by_thread[0], (0, 0, 0), "{info}");
    for (i, (clients, reads, writes)) in by_thread.into_iter().enumerate().skip(1) {
        let pings = i as u64 * PINGS;
        assert_eq!(clients, 1, "{flags:?}: {info}");
        // A reply is counted when it has been sent: the client may have the last one before that.
        assert!((pings - 1..=pings).contains(&writes), "{flags:?}: {info}");
        // The one that asks is read once more; and the system may say twice that there is something.
        assert!((pings..pings + 4).contains(&reads), "{flags:?}: {info}");
    }

    // What this client itself reads was written before it asks, but for the reply it waits for.
    let all_pings = 6 * PINGS;
    let read_before = all_pings * 6 + "INFO threads\r\n".len() as u64 + "INFO\r\n".len() as u64;
    assert_eq!(
        server.info("total_net_input_bytes"),
        read_before,
        "{flags:?}"
    );
    let sent = server.info("total_net_output_bytes");
    assert!(sent > all_pings * 7 + length as u64, "{flags:?}: {sent}");

    assert_eq!(server.ask(b"CONFIG RESETSTAT\r\n"), "+OK\r\n");
    assert!(server.info("total_net_input_bytes") <= 16);
    assert!(server.info("total_reads_processed") <= 16);
    server.wait_for_clients(4);
}

#[test]
fn shared() {
    check(&[]);
}

#[test]
fn per_thread_counts_beside_shared_bytes() {
    check(&["--stats", "counters"]);
}

#[test]
fn per_thread_bytes_beside_shared_counts() {
    check(&["--net-bytes", "per-thread"]);
}

#[test]
fn all_per_thread() {
    check(&["--stats", "counters", "--net-bytes", "per-thread"]);
}
