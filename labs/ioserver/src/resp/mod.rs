//! The protocol: requests in, replies out. Bytes only; no socket and no command is known here.

mod commands;
mod inline;
mod reply;
mod request;

pub use commands::{Command, Commands};
pub use reply::{Protocol, Reply};
pub use request::{Bounds, Parser, ProtocolError};
