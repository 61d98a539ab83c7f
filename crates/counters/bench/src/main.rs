//! Ways of counting side by side, in one interleaved run: `cargo xtask bench counters`.
//!
//! Every round runs every way once, for some 8 ms, with one thread and with several on processors of their own; a way's
//! ratio is taken within the round. Rounds in which the threads of a way did not run side by side are repeated a few times,
//! and counted where that did not help.

mod machine;
mod measure;
mod readers;
mod ways;

use anyhow::Result;

fn main() -> Result<()> {
    let rounds = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 9,
    };
    let cpus = machine::cpus()?;
    println!(
        "{} processors; median of {rounds} interleaved rounds, ratios within a round",
        cpus.len()
    );
    let most = cpus.len().min(8);
    for threads in if most > 1 { vec![1, most] } else { vec![1] } {
        measure::table(&cpus[..threads], rounds)?;
    }
    readers::registration()?;
    readers::memory();
    // Stays on one processor from here on.
    readers::snapshots(&cpus, rounds);
    Ok(())
}
