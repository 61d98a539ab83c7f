//! Checks that need a nightly toolchain or a tool of their own: they skip visibly without it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use hitm_model::{Event, Nanos, Pid, Registers, Sample, SpaceId, StopReason, ThreadId, Tid};
use hitm_recording::Writer;
use hitm_testkit::{Layout, fixture, have_tool, skipped};

use crate::tools::{check, root, succeeds};

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
            "--package=hitm-counters",
        ])
        .env("PROPTEST_CASES", "8")
        .env("MIRIFLAGS", "-Zmiri-disable-isolation"),
    )?;
    // The runtime, with its threads; its tests are smaller under Miri.
    check(
        rustup_cargo(&["miri", "test", "--package=doradd", "--lib", "--test=it"])
            .env("PROPTEST_CASES", "2")
            .env("MIRIFLAGS", "-Zmiri-disable-isolation"),
    )
}

/// The crates that have threads and rings of shared memory under ThreadSanitizer.
pub(crate) fn tsan() -> Result<()> {
    let sources = Command::new("rustc")
        .env_remove("RUSTUP_TOOLCHAIN")
        .args(["+nightly", "--print=sysroot"])
        .output()
        .ok()
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .filter(|sysroot| !sysroot.is_empty())
        .map(|sysroot| format!("{sysroot}/lib/rustlib/src/rust/library/Cargo.lock"));
    if !sources.is_some_and(|lock| Path::new(&lock).exists()) {
        // Without an instrumented std every channel would be a false alarm.
        skipped("no sources of std: rustup component add --toolchain nightly rust-src");
        return Ok(());
    }
    check(
        rustup_cargo(&[
            "test",
            "--tests",
            "-Zbuild-std",
            "--target",
            TRIPLE,
            "--package=hitm-collect",
            "--package=doradd",
            "--package=hitm-counters",
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
        plant_seeds(target)?;
        let time = format!("-max_total_time={seconds}");
        // Inputs as large as a small program: a binary has its section headers at the end.
        let limits = ["-max_len=65536", "-timeout=10", "-rss_limit_mb=2048"];
        check(rustup_cargo(&["fuzz", "run", target, "--", &time]).args(limits))?;
    }
    Ok(())
}

/// Gives a target something real to start from; the fuzzer's own finds are kept beside it.
fn plant_seeds(target: &str) -> Result<()> {
    let directory = root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&directory)?;
    match target {
        "recording" => fs::write(directory.join("seed"), recording()?)?,
        // The size of the pieces, a transaction's frame of zeros, a request for the state, the beginning of a third frame.
        "rpc" => {
            let transaction = [&[52, 0, 0, 0, 1][..], &[0; 51]].concat();
            let state = [&[12, 0, 0, 0, 2][..], &[0; 11]].concat();
            fs::write(
                directory.join("seed"),
                [&[7], &transaction[..], &state, &[52]].concat(),
            )?;
        }
        "binary" | "layout" | "program" => {
            for name in [
                "thread_local",
                "static_local",
                "refcount_payload",
                "ring_indices",
            ] {
                let built = fixture(name).build(Layout::Faulty, None)?;
                fs::copy(built.program, directory.join(name))?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// A small recording with events of several kinds.
fn recording() -> Result<Vec<u8>> {
    let (space, thread, at) = (SpaceId(0), ThreadId(0), Nanos(5));
    let (pid, tid, name) = (Pid(7), Tid(7), "main".to_owned());
    let registers = Registers::default();
    let mut writer = Writer::new(Vec::new())?;
    for event in [
        Event::SpaceBorn {
            space,
            pid,
            parent: None,
            at,
        },
        Event::ThreadBorn {
            thread,
            space,
            tid,
            name,
            at,
        },
        Event::Sample(Sample {
            thread,
            at,
            cpu: 1,
            registers,
        }),
        Event::Lost { at, events: 3 },
        Event::Ended {
            at,
            reason: StopReason::TimeOver,
        },
    ] {
        writer.event(&event)?;
    }
    writer.flush()?;
    Ok(writer.into_inner()?)
}
