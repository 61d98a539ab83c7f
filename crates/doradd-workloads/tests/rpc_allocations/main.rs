//! After it has warmed up, a server allocates nothing for a request.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use doradd::{Dispatch, Runtime};
use doradd_workloads::log::{KEYS, Rows};
use doradd_workloads::rpc::wire::{Ask, Body, REPLY, Reply, Request, RequestId, Status};
use doradd_workloads::rpc::{Answers, Options, Server, Ticket};
use doradd_workloads::ycsb::Ycsb;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

#[expect(unsafe_code, reason = "an allocator that counts")]
// SAFETY: all is done by the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Requests that are sent at once.
const BATCH: usize = 50;

/// Sends batches of requests and reads the replies, itself without allocating.
fn exchange(socket: &mut TcpStream, requests: &[u8], batches: usize) {
    let mut replies = [0; BATCH * REPLY];
    for _ in 0..batches {
        socket.write_all(requests).unwrap();
        socket.read_exact(&mut replies).unwrap();
        for frame in replies.as_chunks::<REPLY>().0 {
            assert_eq!(Reply::from_bytes(frame).unwrap().status, Status::Executed);
        }
    }
}

/// One test only: the counter is the process's.
#[test]
fn requests_allocate_nothing() {
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let options = Options {
            rows: Rows(1000),
            runtime: Runtime::builder().dispatch(Dispatch::Fused),
            workers: 2,
            in_flight: 1024,
            pipeline: 64,
            connections: 10,
            log: None,
            patience: Duration::from_secs(5),
        };
        let server = Server::bind("127.0.0.1:0", options).unwrap();
        let board = server.board();
        tell.send((server.address(), server.stopper())).unwrap();
        let app: Ycsb<Ticket<'_>, Answers, 8> = Ycsb::new(Rows(1000), Answers);
        server.run(&board, &app, |_| ()).unwrap().statistics
    });
    let (address, stopper) = told.recv().unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    let mut requests = Vec::new();
    for i in 0..BATCH as u32 {
        let keys = std::array::from_fn::<u32, KEYS, _>(|key| (i * 7 + key as u32 * 13) % 30);
        let ask = Ask::Execute(Body { keys, writes: 0b11 });
        Request {
            id: RequestId(i.into()),
            ask,
        }
        .encode(&mut requests);
    }
    exchange(&mut socket, &requests, 200);
    let before = ALLOCATIONS.load(Relaxed);
    exchange(&mut socket, &requests, 400);
    let allocations = ALLOCATIONS.load(Relaxed) - before;
    stopper.stop();
    drop(socket);
    assert_eq!(server.join().unwrap().executed, 600 * BATCH as u64);
    // A list whose length depends on timing may still grow a few times.
    assert!(
        allocations < 10,
        "{allocations} allocations in {} requests",
        400 * BATCH
    );
}
