//! What users of the runtime can rely on, through its public interface.
#![cfg(not(any(loom, shuttle)))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bound;
mod quiet;
mod replay;
mod replay_model;
mod stress;
mod when;
mod when_model;
