//! Clients that send what they must not, do not read, vanish, or are many: none of them hurts another.

use std::io::Write;
use std::net::Shutdown;
use std::thread;
use std::time::{Duration, Instant};

use doradd_workloads::rpc::wire::{Ask, Body, Malformed, Status};
use doradd_workloads::rpc::{Options, Served};

use crate::harness::{Client, Running, assert_executed, body, frame, frames, options, start};

/// Sends bytes after two good requests: the two are answered, then comes the fault, then the end.
fn malformed(server: &Running, bytes: &[u8], ends: bool, fault: Malformed) {
    let mut client = server.connect();
    client.send(&frames(0..2));
    client.send(bytes);
    if ends {
        client.socket.shutdown(Shutdown::Write).unwrap();
    }
    let replies = client.rest();
    assert_executed(&replies[..2], 0..2);
    assert_eq!(replies.len(), 3, "{replies:?}");
    assert_eq!(
        (replies[2].status, replies[2].detail),
        (Status::Malformed, fault.code()),
        "{bytes:?}"
    );
}

#[test]
fn bytes_that_are_no_frame_end_their_connection_only() {
    let server = start(options());
    let mut bystander = server.connect();
    let half = &frame(3, Ask::Execute(body(3)))[..30];
    let mut garbage = vec![0xA5; 100_000];
    garbage[0] = 1;
    let wrong_kind = [52, 0, 0, 0, 9];
    let cases: [(&[u8], bool, Malformed); 6] = [
        (&[0; 4], false, Malformed::Length(0)),
        (&[0xFF; 4], false, Malformed::Length(u32::MAX)),
        (&garbage, false, Malformed::Length(0)),
        (&wrong_kind, false, Malformed::Kind(9)),
        (half, true, Malformed::Truncated),
        (&[52], true, Malformed::Truncated),
    ];
    for (bytes, ends, fault) in cases {
        malformed(&server, bytes, ends, fault);
        assert_eq!(
            bystander.ask(1, Ask::Execute(body(1))).status,
            Status::Executed
        );
    }
    drop(bystander);
    let (served, ..) = server.stop();
    let all = served.statistics;
    assert_eq!(
        (all.malformed, all.accepted, all.executed),
        (6, 6 * 3, 6 * 3)
    );
}

#[test]
fn wrong_keys_are_refused_in_their_turn() {
    let server = start(options());
    let mut client = server.connect();
    let mut bad_key = body(1);
    bad_key.keys[7] = 1000;
    let bad_write = Body {
        writes: 1 << 10,
        ..body(1)
    };
    let asks = [
        Ask::Execute(body(0)),
        Ask::Execute(bad_key),
        Ask::State,
        Ask::Execute(bad_write),
        Ask::Execute(body(1)),
    ];
    let bytes: Vec<u8> = (0..)
        .zip(asks)
        .flat_map(|(id, ask)| frame(id, ask))
        .collect();
    client.send(&bytes);
    client.socket.shutdown(Shutdown::Write).unwrap();
    let replies = client.rest();
    let seen: Vec<_> = replies
        .iter()
        .map(|reply| (reply.id.0, reply.status, reply.detail))
        .collect();
    let expected = [
        (0, Status::Executed, 0),
        (1, Status::Refused, 7),
        (2, Status::State, 0),
        (3, Status::Refused, 255),
        (4, Status::Executed, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(
        replies[4].sequence, 1,
        "what is refused takes no place in the order"
    );
    let (served, ..) = server.stop();
    assert_eq!(
        (served.statistics.refused, served.statistics.accepted),
        (2, 2)
    );
}

#[test]
fn a_client_that_ends_its_side_still_gets_all_replies() {
    let server = start(options());
    let mut client = server.connect();
    client.send(&frames(0..500));
    client.socket.shutdown(Shutdown::Write).unwrap();
    assert_executed(&client.rest(), 0..500);
    server.stop();
}

#[test]
fn a_client_that_does_not_read_stops_only_itself() {
    let server = start(options());
    // Sends until nobody takes any more.
    let mut slow = server.connect();
    slow.socket.set_nonblocking(true).unwrap();
    let bytes = frames(0..1000);
    let mut sent = 0;
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(500) {
        match slow.socket.write(&bytes[sent % bytes.len()..]) {
            Ok(n) => {
                sent += n;
                last = Instant::now();
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    // Others are served, with all slots.
    let mut quick = server.connect();
    for id in 0..500 {
        assert_eq!(
            quick.ask(id, Ask::Execute(body(id))).status,
            Status::Executed
        );
    }
    // In the end it gets what it is owed, in order, and no reply is missing.
    slow.socket.set_nonblocking(false).unwrap();
    let whole = sent / 56;
    let replies: Vec<_> = (0..whole).map(|_| slow.reply().unwrap()).collect();
    assert_executed(&replies, (0..whole as u64).map(|i| i % 1000));
    assert!(whole > 1000, "{whole} requests filled the way");
    drop((slow, quick));
    let (served, ..) = server.stop();
    assert_eq!(served.statistics.executed, whole as u64 + 500);
}

#[test]
fn clients_that_vanish_leave_no_trace_but_what_was_accepted() {
    let server = start(options());
    let vanished: Vec<_> = (0..50u64)
        .map(|i| {
            let mut client = server.connect();
            client.send(&frames(0..100));
            client.send(&frame(100, Ask::Execute(body(1)))[..(i as usize % 56)]);
            // Dropped with unread replies, which resets the connection.
            drop(client);
        })
        .collect();
    assert_eq!(vanished.len(), 50);
    let mut client = server.connect();
    for id in 0..100 {
        assert_eq!(
            client.ask(id, Ask::Execute(body(id))).status,
            Status::Executed
        );
    }
    drop(client);
    let (served, ..) = server.stop();
    let all = served.statistics;
    assert_eq!(all.executed, all.accepted);
    assert!((100..=5100).contains(&all.accepted), "{all:?}");
    assert_eq!(all.connections, 51);
}

#[test]
fn a_thousand_connections() {
    const EACH: u64 = 8;
    let server = start(options());
    let mut clients: Vec<Client> = (0..1000).map(|_| server.connect()).collect();
    for (i, client) in (0..).zip(&mut clients) {
        client.send(&frames(i * EACH..(i + 1) * EACH));
    }
    for (i, client) in (0..).zip(&mut clients) {
        let replies: Vec<_> = (0..EACH).map(|_| client.reply().unwrap()).collect();
        assert_executed(&replies, i * EACH..(i + 1) * EACH);
    }
    let (served, ..) = server.stop();
    let all = served.statistics;
    assert_eq!((all.executed, all.peak_connections), (1000 * EACH, 1000));
    for mut client in clients {
        assert_eq!(
            client
                .rest()
                .iter()
                .map(|reply| reply.status)
                .collect::<Vec<_>>(),
            [Status::Goodbye]
        );
    }
}

#[test]
fn connections_beyond_the_limit_wait_for_one_to_end() {
    let server = start(Options {
        connections: 2,
        ..options()
    });
    let mut first = server.connect();
    let mut second = server.connect();
    let mut third = server.connect();
    for client in [&mut first, &mut second] {
        assert_eq!(client.ask(1, Ask::State).status, Status::State);
    }
    third.send(&frame(3, Ask::State));
    third
        .socket
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    assert!(
        std::io::Read::read(&mut &third.socket, &mut [0; 1]).is_err(),
        "it waits"
    );
    drop(first);
    third
        .socket
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    assert_eq!(third.reply().unwrap().id.0, 3);
    drop((second, third));
    let (_, _, notices) = server.stop();
    assert!(!notices.is_empty());
}

/// Stops a server while clients send as fast as they can: each request is answered, or not accepted.
#[test]
fn the_end_under_load_loses_and_doubles_nothing() {
    let server = start(options());
    let address = server.address;
    let clients: Vec<_> = (0..4)
        .map(|_| {
            thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut sender = client.socket.try_clone().unwrap();
                let sender = thread::spawn(move || {
                    for start in (0..).step_by(50) {
                        // Ends when the server has.
                        if sender.write_all(&frames(start..start + 50)).is_err() {
                            return;
                        }
                    }
                });
                let mut replies = client.rest();
                drop(client.socket.shutdown(Shutdown::Both));
                sender.join().unwrap();
                let farewell = replies.pop().expect("a goodbye");
                assert_eq!(farewell.status, Status::Goodbye);
                assert_executed(&replies, 0..replies.len() as u64);
                replies.len() as u64
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(300));
    let (served, ..) = server.stop();
    let answered: u64 = clients
        .into_iter()
        .map(|client| client.join().unwrap())
        .sum();
    let Served {
        statistics: all,
        failure,
        ..
    } = served;
    assert!(failure.is_none());
    assert_eq!(
        (all.accepted, all.executed, all.undelivered),
        (answered, answered, 0)
    );
    assert!(answered > 0);
}
