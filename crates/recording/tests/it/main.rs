//! Recordings through the public API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bytes;
mod damage;
mod events;
mod round_trip;
