//! What goes between an IO thread and the main thread.

use std::net::SocketAddr;

use mio::net::TcpStream;

use crate::resp::{Commands, Reply};

/// Who a client is, as far as commands know or change it.
#[derive(Clone, Debug)]
pub(crate) struct Session {
    pub(crate) id: u64,
    pub(crate) address: SocketAddr,
    pub(crate) name: Vec<u8>,
    pub(crate) library: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
}

/// A client's commands on their way to the main thread, and its replies on their way back. There is one per client, used
/// again and again; whoever has it may do with the client what is theirs to do.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Number of the IO thread that it goes back to.
    pub(crate) thread: usize,
    /// Which of that thread's clients it is.
    pub(crate) slot: usize,
    pub(crate) session: Session,
    pub(crate) commands: Commands,
    pub(crate) reply: Reply,
    /// The client is to be disconnected when the reply is sent.
    pub(crate) close: bool,
}

/// What the main thread tells an IO thread.
#[derive(Debug)]
pub(crate) enum ToIo {
    /// A new client is yours.
    Client(TcpStream, Box<Session>),
    /// Its commands were executed.
    Executed(Box<Turn>),
    /// The server ends.
    Stop,
}

/// What an IO thread tells the main thread.
#[derive(Debug)]
pub(crate) enum ToMain {
    /// Execute these commands.
    Execute(Box<Turn>),
    /// A client of this thread is gone.
    Gone {
        /// The thread.
        thread: usize,
    },
    /// This thread cannot go on.
    Failed(anyhow::Error),
}
