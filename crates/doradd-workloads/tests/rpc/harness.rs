//! A server in this process, and clients that speak bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use doradd::{Dispatch, Random, Runtime, StateDigest};
use doradd_workloads::log::{KEYS, Rows};
use doradd_workloads::rpc::wire::{Ask, Body, REPLY, Reply, Request, RequestId, Status};
use doradd_workloads::rpc::{Answers, Notice, Options, Served, Server, Stopper, Ticket};
use doradd_workloads::ycsb::{Panics, Ycsb};

/// Rows of the tables here.
pub(crate) const ROWS: Rows = Rows(1000);
/// No test takes that long: a client that waits for more has found a fault.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Small bounds, so that tests reach them.
pub(crate) fn options() -> Options {
    Options {
        rows: ROWS,
        runtime: Runtime::builder()
            .max_in_flight(64)
            .dispatch(Dispatch::Fused),
        workers: 2,
        in_flight: 128,
        pipeline: 32,
        connections: 2000,
        log: None,
        patience: Duration::from_secs(5),
    }
}

/// A server on a thread of its own.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) stopper: Stopper,
    thread: JoinHandle<(Served, StateDigest, Vec<Notice>)>,
}

pub(crate) fn start(options: Options) -> Running {
    start_with(options, None)
}

pub(crate) fn start_with(options: Options, panics: Option<Panics>) -> Running {
    let (tell, told) = mpsc::channel();
    let thread = thread::spawn(move || {
        let server = Server::bind("127.0.0.1:0", options).unwrap();
        let board = server.board();
        tell.send((server.address(), server.stopper())).unwrap();
        let mut app: Ycsb<Ticket<'_>, Answers, 8> = Ycsb::new(ROWS, Answers);
        if let Some(panics) = panics {
            app = app.panicking(panics);
        }
        let mut notices = Vec::new();
        let served = server
            .run(&board, &app, |notice| notices.push(notice))
            .unwrap();
        (served, app.state_digest(), notices)
    });
    let (address, stopper) = told.recv().unwrap();
    Running {
        address,
        stopper,
        thread,
    }
}

impl Running {
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Stops the server and gives what it did.
    pub(crate) fn stop(self) -> (Served, StateDigest, Vec<Notice>) {
        self.stopper.stop();
        self.thread.join().unwrap()
    }
}

/// A client.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        socket.set_write_timeout(Some(TIMEOUT)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// The next reply; nothing if the server has ended the connection.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut frame = [0; REPLY];
        match self.socket.read_exact(&mut frame) {
            Ok(()) => Some(Reply::from_bytes(&frame).unwrap()),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn ask(&mut self, id: u64, ask: Ask) -> Reply {
        self.send(&frame(id, ask));
        self.reply().expect("an answer")
    }

    /// All replies until the server ends the connection.
    pub(crate) fn rest(&mut self) -> Vec<Reply> {
        std::iter::from_fn(|| self.reply()).collect()
    }
}

/// A request's bytes.
pub(crate) fn frame(id: u64, ask: Ask) -> Vec<u8> {
    let mut bytes = Vec::new();
    Request {
        id: RequestId(id),
        ask,
    }
    .encode(&mut bytes);
    bytes
}

/// A transaction that depends on its number; of few rows, so that many meet.
pub(crate) fn body(number: u64) -> Body {
    let mut random = Random::new(number);
    Body {
        keys: std::array::from_fn::<u32, KEYS, _>(|_| random.below(40) as u32),
        writes: random.below(1 << KEYS) as u16,
    }
}

/// The bytes of many transactions, and the state at the end if wanted.
pub(crate) fn frames(ids: impl Iterator<Item = u64>) -> Vec<u8> {
    ids.flat_map(|id| frame(id, Ask::Execute(body(id))))
        .collect()
}

/// Checks that replies are those of executed requests with these ids, in this order, each later in the order of the log.
pub(crate) fn assert_executed(replies: &[Reply], ids: impl IntoIterator<Item = u64>) {
    let ids: Vec<u64> = ids.into_iter().collect();
    let answered: Vec<u64> = replies.iter().map(|reply| reply.id.0).collect();
    assert_eq!(answered, ids);
    assert!(
        replies.iter().all(|reply| reply.status == Status::Executed),
        "{replies:?}"
    );
    assert!(replies.is_sorted_by(|one, next| one.sequence < next.sequence));
}
