//! Feeds what the fuzzer makes up to the body of this name.

#![no_main]

#[path = "../bodies/rpc.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| body::run(bytes));
