//! What counting costs with hitm-counters and in the ways it is compared with.
//!
//! The benchmark is a program in a workspace of its own (`crates/counters/bench`), so that the crates it compares with are
//! built for it only. It interleaves all ways itself and prints its table.

use anyhow::Result;

use crate::tools::{cargo, check, target_dir};

pub(crate) fn counters(rounds: u32) -> Result<()> {
    let mut command = cargo(&[
        "run",
        "--release",
        "--quiet",
        "--manifest-path=crates/counters/bench/Cargo.toml",
        "--",
    ]);
    command.arg(rounds.to_string());
    check(command.env("CARGO_TARGET_DIR", target_dir()?.join("counters-bench")))
}
