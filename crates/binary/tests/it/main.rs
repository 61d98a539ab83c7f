//! hitm-binary through its public API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod debug;
mod decode;
mod image;
mod program;
mod program_cases;
mod relocatable;
