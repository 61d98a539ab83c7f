//! Samplers and recorders against real programs.
#![expect(
    clippy::unwrap_used,
    reason = "what fails here fails the test; clippy.toml allows it only inside test functions"
)]

mod attach;
mod preload;
mod program;
mod prove;
mod run;
mod session;
mod stacks;
mod stopped;
mod trial;
