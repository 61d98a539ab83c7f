//! The front end over TCP: requests in frames from many clients become one total order, and each gets its result back.
//!
//! docs/doradd-rpc.md describes the protocol byte by byte. One thread reads all connections, and the order in which it reads
//! is the order of the log; the dispatcher takes requests from it, workers run them, and their results return to that thread,
//! which answers each connection in the order of its requests.
//!
//! ```text
//! clients ──frames──► handler ──feed──► dispatcher ──► workers
//!    ▲                   │  ▲                             │
//!    └────replies────────┘  └───────────board─────────────┘
//! ```
//!
//! | module | what it is |
//! | --- | --- |
//! | [`wire`] | frames |
//! | [`buffers`], `connection`, `clients` | what is kept per connection, all of fixed size |
//! | `acceptor` | new connections, also when there is no room for them |
//! | `handler` | the loop of the one thread |
//! | `order_log` | the accepted order as a file |
//! | `feed`, `doorbell` | the queue to the dispatcher, which is its log, and where it sleeps |
//! | `board`, `pending` | results on their way back, requests that wait for them |
//! | `documents` | JSON with schemas |
//! | `results` | one number for all results |
//! | [`client`] | a client that measures |
//! | `serial` | the accepted order executed one by one |

mod acceptor;
mod board;
pub mod buffers;
pub mod client;
mod clients;
mod connection;
mod documents;
mod doorbell;
mod feed;
mod handler;
mod order_log;
mod pending;
mod results;
mod serial;
mod server;
mod statistics;
pub mod wire;

pub use board::{Answers, Board, Ticket};
pub use documents::{
    ClientDocument, ClientSetup, RPC_JSON_VERSION, ServerDocument, ServerState, client_schema,
    server_schema,
};
pub use handler::Ordered;
pub use order_log::OrderLogError;
pub use results::ResultsDigest;
pub use serial::{Executed, execute_serially};
pub use server::{Options, ServeError, Served, Server, Stopper};
pub use statistics::{Notice, Statistics};
