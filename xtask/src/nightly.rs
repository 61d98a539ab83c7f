//! Checks that need a nightly toolchain or a tool of their own: they skip visibly without it.

use anyhow::{Context as _, Result};
use hitm_testkit::{have_tool, skipped};

use crate::tools::{cargo, check, root, succeeds};
use std::process::Command;

const TRIPLE: &str = "x86_64-unknown-linux-gnu";

fn rustup_cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    // The variables of the toolchain that runs us would win over the one asked for.
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command.current_dir(root()).arg("+nightly").args(arguments);
    command
}

/// The crates without system calls under Miri.
pub(crate) fn miri() -> Result<()> {
    if !succeeds(&mut rustup_cargo(&["miri", "--version"])) {
        skipped("no Miri: rustup component add --toolchain nightly miri rust-src");
        return Ok(());
    }
    // Property tests keep their failures in files, which Miri isolates.
    check(
        rustup_cargo(&[
            "miri",
            "test",
            "--package=hitm-model",
            "--package=hitm-recording",
        ])
        .env("PROPTEST_CASES", "8")
        .env("MIRIFLAGS", "-Zmiri-disable-isolation"),
    )
}

/// The crate that has threads and rings of shared memory under ThreadSanitizer.
pub(crate) fn tsan() -> Result<()> {
    let sources = Command::new("rustc")
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["+nightly", "--print=sysroot"])
        .output()
        .ok()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .filter(|sysroot| !sysroot.is_empty())
        .map(|sysroot| format!("{sysroot}/lib/rustlib/src/rust/library/Cargo.lock"));
    if !sources.is_some_and(|lock| std::path::Path::new(&lock).exists()) {
        // Without an instrumented std every channel would be a false alarm.
        skipped("no sources of std: rustup component add --toolchain nightly rust-src");
        return Ok(());
    }
    check(
        rustup_cargo(&[
            "test",
            "-Zbuild-std",
            "--target",
            TRIPLE,
            "--package=hitm-collect",
        ])
        .env("RUSTFLAGS", "-Zsanitizer=thread"),
    )
}

/// Every fuzz target for some seconds.
pub(crate) fn fuzz(seconds: u32, only: Option<&str>) -> Result<()> {
    if !have_tool("cargo-fuzz") {
        skipped("no cargo-fuzz: cargo install cargo-fuzz");
        return Ok(());
    }
    if !succeeds(&mut rustup_cargo(&["--version"])) {
        skipped("no nightly toolchain: rustup toolchain install nightly");
        return Ok(());
    }
    let listed = rustup_cargo(&["fuzz", "list"])
        .output()
        .context("cargo fuzz list")?;
    let targets = String::from_utf8_lossy(&listed.stdout).into_owned();
    for target in targets
        .lines()
        .filter(|target| only.is_none_or(|only| only == *target))
    {
        let time = format!("-max_total_time={seconds}");
        check(&mut rustup_cargo(&[
            "fuzz",
            "run",
            target,
            "--",
            &time,
            "-rss_limit_mb=2048",
        ]))?;
    }
    // The plain build must hold too: a target that no longer compiles is found without nightly.
    check(&mut cargo(&["check", "--manifest-path=fuzz/Cargo.toml"]))
}
