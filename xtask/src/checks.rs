//! The checks of a change, each alone and all together.

use std::env;
use std::fs;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::policy::policy;
use crate::tidy as rules;
use crate::tools::{cargo, check, install, root, succeeds, target_dir};

/// Tools that tests use as compilers, oracles and clients, with the packages that have them.
const TEST_TOOLS: [(&str, &str); 7] = [
    ("gcc", "gcc"),
    ("g++", "g++"),
    ("objdump", "binutils"),
    ("readelf", "binutils"),
    ("redis-benchmark", "redis-tools"), // has redis-cli too
    ("make", "make"),
    ("cmake", "cmake"),
];

/// Everything; the tests come last, so that the last lines are the test runner's.
pub(crate) fn ci() -> Result<()> {
    let began = Instant::now();
    install(&TEST_TOOLS);
    fmt()?;
    tidy()?;
    clippy()?;
    doc()?;
    doctest()?;
    loom()?;
    shuttle()?;
    features()?;
    policy()?;
    eprintln!(
        "checks done after {:.0} s, now the tests",
        began.elapsed().as_secs_f64()
    );
    test()
}

/// The workspaces beside the main one, which cargo passes over: the preload agent and the fuzz targets.
const AGENT: &str = "runtime/agent/Cargo.toml";
const FUZZ: &str = "fuzz/Cargo.toml";
/// What hitm-counters is compared with.
const COUNTERS_BENCH: &str = "crates/counters/bench/Cargo.toml";

pub(crate) fn fmt() -> Result<()> {
    check(&mut cargo(&["fmt", "--all", "--check"]))?;
    for manifest in [AGENT, FUZZ, COUNTERS_BENCH] {
        check(&mut cargo(&["fmt", "--check", "--manifest-path", manifest]))?;
    }
    Ok(())
}

pub(crate) fn tidy() -> Result<()> {
    let faults = rules::faults(root())?;
    for fault in &faults {
        eprintln!("{fault}");
    }
    if !faults.is_empty() {
        bail!(
            "{} untidy places; CONTRIBUTING.md has the rules",
            faults.len()
        );
    }
    Ok(())
}

/// The fuzz targets are left out: they build with a nightly toolchain only.
pub(crate) fn clippy() -> Result<()> {
    let main: &[&str] = &["--workspace", "--all-targets"];
    for which in [main, &["--manifest-path", AGENT]] {
        let mut command = cargo(&["clippy"]);
        command.args(which).args(["--", "-D", "warnings"]);
        check(&mut command)?;
    }
    Ok(())
}

pub(crate) fn doc() -> Result<()> {
    check(cargo(&["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))
}

pub(crate) fn doctest() -> Result<()> {
    check(&mut cargo(&["test", "--workspace", "--doc", "--quiet"]))
}

/// Crates with lock-free protocols, whose tests named `loom` try every interleaving.
const LOOM_CRATES: [&str; 1] = ["doradd"];

/// The lock-free protocols under every interleaving; a build of its own, because a configuration flag rebuilds everything.
pub(crate) fn loom() -> Result<()> {
    let mut command = cargo(&["test", "--lib"]);
    for package in LOOM_CRATES {
        command.arg("--package").arg(package);
    }
    // More preemptions find nothing new in practice and take hours.
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env("LOOM_MAX_PREEMPTIONS", "3")
        .arg("--target-dir")
        .arg(target_dir()?.join("loom"))
        .args(["--", "loom"]);
    check(&mut command)?;
    let mut command = cargo(&["test", "--package=hitm-counters", "--test=loom"]);
    command
        .env("RUSTFLAGS", "--cfg loom")
        .arg("--target-dir")
        .arg(target_dir()?.join("loom"));
    check(&mut command)
}

/// The whole runtime under ten thousand random schedules.
pub(crate) fn shuttle() -> Result<()> {
    let mut command = cargo(&["test", "--package=doradd", "--test=shuttle", "--target-dir"]);
    command.arg(target_dir()?.join("shuttle"));
    check(command.env("RUSTFLAGS", "--cfg shuttle"))
}

/// The published crates as others may build them, which the workspace's own builds do not do; and that they can be packed.
pub(crate) fn features() -> Result<()> {
    let package = "--package=hitm-counters";
    for features in ["--no-default-features", "--all-features"] {
        let mut command = cargo(&["clippy", package, features, "--all-targets"]);
        check(command.args(["--", "-D", "warnings"]))?;
    }
    check(&mut cargo(&["test", package, "--all-features", "--quiet"]))?;
    for package in ["--package=hitm-counters-derive", package] {
        check(&mut cargo(&[
            "package",
            "--list",
            "--allow-dirty",
            "--quiet",
            package,
        ]))?;
    }
    Ok(())
}

/// All tests but the doctests. Those that were skipped are listed, because test runners hide what passing tests print.
pub(crate) fn test() -> Result<()> {
    install(&TEST_TOOLS);
    let log = target_dir()?.join("skipped-tests.log");
    let _ = fs::remove_file(&log);
    let nextest = succeeds(&mut cargo(&["nextest", "--version"]));
    let mut command = if nextest {
        cargo(&["nextest", "run", "--workspace"])
    } else {
        cargo(&["test", "--workspace", "--lib", "--bins", "--tests"])
    };
    let result = check(command.env(hitm_testkit::SKIP_LOG, &log));
    if let Ok(skipped) = fs::read_to_string(&log) {
        eprint!("{skipped}");
        if env::var_os("REQUIRE_ALL").is_none() {
            eprintln!(
                "{} tests skipped; REQUIRE_ALL=1 makes that a failure",
                skipped.lines().count()
            );
        }
    }
    result
}
