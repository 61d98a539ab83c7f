//! The promises of the crate through its public interface. That this forbids unsafe code also shows that the derive asks
//! for none.

#![cfg(not(loom))]
#![forbid(unsafe_code)]

mod derived;
mod exports;
mod layout;
mod lifecycle;
mod model;
mod per_cpu;
