//! What users of the workloads can rely on, through the public interface.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod log;
