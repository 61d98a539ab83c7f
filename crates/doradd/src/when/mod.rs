//! Requests from any thread: a body runs once it holds all its objects, and requests that share objects keep their order.
//!
//! `cown` is an object and its queue, `behaviour` a submitted body, `slab` where these live, `objects` what can be asked
//! for, and `engine` brings them together.

pub(crate) mod behaviour;
pub(crate) mod cown;
pub(crate) mod engine;
pub(crate) mod objects;
pub(crate) mod slab;

#[cfg(all(test, loom))]
mod loom_tests;
