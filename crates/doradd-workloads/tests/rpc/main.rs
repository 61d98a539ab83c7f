//! The front end over TCP: what clients see, what they cannot break, and that the order it made is the one it executed.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;
mod framing;
mod harness;
mod hostile;
mod order;
