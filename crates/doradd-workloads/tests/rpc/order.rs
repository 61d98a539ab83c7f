//! The order the server makes is the one it executes: replies, digests and the log file all tell of the same.

use std::thread;

use doradd::{Dispatch, OnPanic, Runtime};
use doradd_workloads::log::{Mapped, Transaction};
use doradd_workloads::rpc::wire::{Ask, Status};
use doradd_workloads::rpc::{Options, execute_serially};
use doradd_workloads::ycsb::Panics;

use crate::harness::{ROWS, assert_executed, body, frame, frames, options, start, start_with};

#[test]
fn a_request_is_answered_with_its_place_and_its_result() {
    let server = start(options());
    let mut client = server.connect();
    let first = client.ask(70, Ask::Execute(body(1)));
    let second = client.ask(7, Ask::Execute(body(1)));
    assert_executed(&[first, second], [70, 7]);
    assert_eq!((first.sequence, second.sequence), (0, 1));
    assert_ne!(
        first.result, second.result,
        "a result depends on its place in the order"
    );
    let state = client.ask(9, Ask::State);
    assert_eq!(
        (state.status, state.id.0, state.sequence),
        (Status::State, 9, 2)
    );
    server.stopper.stop();
    assert_eq!(client.rest()[0].status, Status::Goodbye);
    drop(client);
    let (served, ..) = server.stop();
    assert_eq!(served.results.to_bits(), state.result);
    assert_eq!(
        (served.statistics.accepted, served.statistics.executed),
        (2, 2)
    );
}

/// Many clients at once; the log that the server wrote, executed one by one, gives the same state and results.
fn same_as_its_log(dispatch: Dispatch, workers: usize) {
    const CLIENTS: u64 = 8;
    const EACH: u64 = 2000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("order.log");
    let server = start(Options {
        runtime: Runtime::builder().max_in_flight(64).dispatch(dispatch),
        workers,
        log: Some(path.clone()),
        ..options()
    });
    let address = server.address;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            thread::spawn(move || {
                let mut client = crate::harness::Client::connect(address);
                let mut sender = client.socket.try_clone().unwrap();
                let ids = number * EACH..(number + 1) * EACH;
                let bytes = frames(ids.clone());
                let sender =
                    thread::spawn(move || std::io::Write::write_all(&mut sender, &bytes).unwrap());
                let replies: Vec<_> = ids.clone().map(|_| client.reply().unwrap()).collect();
                sender.join().unwrap();
                assert_executed(&replies, ids);
                replies
            })
        })
        .collect();
    let mut replies: Vec<_> = clients
        .into_iter()
        .flat_map(|client| client.join().unwrap())
        .collect();
    let state = server.connect().ask(1, Ask::State);
    let (served, digest, _) = server.stop();

    replies.sort_by_key(|reply| reply.sequence);
    let sequences: Vec<u64> = replies.iter().map(|reply| reply.sequence).collect();
    assert_eq!(
        sequences,
        (0..CLIENTS * EACH).collect::<Vec<_>>(),
        "each place is given once"
    );
    let log = Mapped::<Transaction>::open(&path, ROWS).unwrap();
    let logged = log
        .entries()
        .map(|transaction| (*transaction.keys(), transaction.writes()));
    let answered = replies
        .iter()
        .map(|reply| body(reply.id.0))
        .map(|body| (body.keys, body.writes));
    assert!(
        logged.eq(answered),
        "the log has the order that clients were told"
    );
    let serial = execute_serially::<8>(log.entries(), ROWS).unwrap();
    assert_eq!(
        (serial.transactions, serial.state, serial.results),
        (CLIENTS * EACH, digest, served.results)
    );
    assert_eq!(
        (state.sequence, state.result),
        (CLIENTS * EACH, serial.results.to_bits())
    );
}

#[test]
fn many_clients_have_one_order_fused() {
    same_as_its_log(Dispatch::Fused, 2);
}

#[test]
fn many_clients_have_one_order_pipelined() {
    same_as_its_log(Dispatch::Pipelined, 1);
}

#[test]
fn the_state_is_that_of_the_requests_before_it() {
    let server = start(options());
    let mut client = server.connect();
    let mut bytes = Vec::new();
    for id in 0..300 {
        bytes.extend(frame(id, Ask::Execute(body(id))));
        bytes.extend(frame(1000 + id, Ask::State));
    }
    let mut sender = client.socket.try_clone().unwrap();
    let sender = thread::spawn(move || std::io::Write::write_all(&mut sender, &bytes).unwrap());
    let mut serial = doradd_workloads::rpc::ResultsDigest::default();
    for id in 0..300 {
        let (executed, state) = (client.reply().unwrap(), client.reply().unwrap());
        assert_eq!((executed.status, executed.id.0), (Status::Executed, id));
        serial = serial.and(Status::Executed, executed.result);
        assert_eq!((state.status, state.id.0), (Status::State, 1000 + id));
        assert_eq!((state.sequence, state.result), (id + 1, serial.to_bits()));
    }
    sender.join().unwrap();
    drop(client);
    server.stop();
}

#[test]
fn a_body_that_panics_and_those_it_poisons_are_answered() {
    for then in [OnPanic::Continue, OnPanic::Poison] {
        let server = start_with(options(), Some(Panics { every: 10, then }));
        let mut client = server.connect();
        client.send(&frames(0..30));
        let replies: Vec<_> = (0..30).map(|_| client.reply().unwrap()).collect();
        assert!(replies.iter().map(|reply| reply.sequence).eq(0..30));
        let count = |status| {
            replies
                .iter()
                .filter(|reply| reply.status == status)
                .count() as u64
        };
        let (served, ..) = server.stop();
        let all = served.statistics;
        let counted = (
            count(Status::Executed),
            count(Status::Panicked),
            count(Status::NotRun),
        );
        assert_eq!((all.executed, all.panicked, all.not_run), counted);
        assert_eq!(replies[10].status, Status::Panicked);
        match then {
            OnPanic::Continue => assert_eq!(counted, (28, 2, 0)),
            _ => assert!(counted.2 > 0, "{counted:?}"),
        }
    }
}
