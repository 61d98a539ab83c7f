//! The lab as a user runs it: both twins, their machine code, and what hitm says of them.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod code;
mod live;
mod programs;
mod twins;
