//! The server as its users meet it: through sockets, redis-cli, redis-benchmark and hitm. And its parser by itself.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bounds;
mod commands;
mod live;
mod malformed;
mod parser;
mod redis_tools;
mod replies;
mod server;
mod stats;
