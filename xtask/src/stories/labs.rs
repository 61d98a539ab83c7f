//! The cases of the stories that are programs of their own: where they are built, and with what options they run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::case::{Case, Session, TIME_LIMIT, processors};
use super::child;
use super::gain::Counted;
use super::program::{Meter, Program};
use super::seen::Expected;
use crate::lab;
use crate::tools::{cargo, check, target_dir};

/// The elements that the first two threads count in.
const FIRST_COUNTERS: Expected = Expected {
    verdict: "false-sharing",
    names: &["cnt[0]", "cnt[1]"],
};

/// Story 1: the lab in C++.
pub(super) fn story1() -> Result<Vec<Case>> {
    let program = lab::story1()?;
    let layout = |fixed: &str| {
        Box::new(Program {
            path: program.clone(),
            look: format!("--seconds 2 {fixed}"),
            prove: format!("--seconds 60 {fixed}"),
            timed: format!("--seconds 1 {fixed}"),
            meter: Meter::Spawned,
        })
    };
    Ok(vec![Case {
        title: "two globals of different subsystems and a hidden guard on one line of .bss (C++)",
        repair: "the written one on a line of its own",
        expected: Expected {
            verdict: "false-sharing",
            names: &["mem_array_idx", "global_epoch", "guard"],
        },
        slow: layout(""),
        repaired: layout("--fixed"),
        prove: true,
        counted: Counted::SideBySide,
    }])
}

/// Story 1 in the runtime that it happened in, as it is today: a feature puts two words on one line again.
pub(super) fn story1_in_doradd(session: &Session<'_>) -> Result<Vec<Case>> {
    let repaired = ycsb(session, "repaired", &[])?;
    let slow = ycsb(session, "slow", &["--features=story1-false-sharing"])?;
    // Rows that the caches hold, so that executing does not hide the hand-over.
    let log = session.work.join("ycsb.log");
    let rows = ["--rows", "10000"];
    let mut generate = Command::new(&repaired);
    generate
        .args(["gen", "--txns", "200000", "-o"])
        .arg(&log)
        .args(rows);
    child::run(&mut generate, TIME_LIMIT, session.interrupts)?;
    let layout = |path: PathBuf| {
        let options = |seconds: u32| {
            let rows = rows.join(" ");
            format!("ycsb.log {rows} --row-bytes 64 -n 1 --pin --seconds {seconds} --json")
        };
        Box::new(Program {
            path,
            look: options(4),
            prove: options(60),
            timed: options(1),
            meter: Meter::Executed,
        })
    };
    Ok(vec![Case {
        title: "a word that doradd's dispatcher writes for each transaction, and one that its workers read for each and poll (`ycsb`)",
        repair: "each on a line of its own",
        expected: Expected {
            verdict: "false-sharing",
            names: &["spawned", "signals"],
        },
        slow: layout(slow),
        repaired: layout(repaired),
        prove: false,
        counted: Counted::SideBySide,
    }])
}

/// Builds doradd's `ycsb`, and keeps a copy that the next build does not replace.
fn ycsb(session: &Session<'_>, name: &str, features: &[&str]) -> Result<PathBuf> {
    let mut build = cargo(&[
        "build",
        "--release",
        "--package=doradd-workloads",
        "--bin=ycsb",
    ]);
    check(build.args(features))?;
    let kept = session.work.join(format!("ycsb-{name}"));
    fs::copy(target_dir()?.join("release/ycsb"), &kept).context("cannot keep ycsb")?;
    Ok(kept)
}

/// Story 2: the collector, in Rust and in C.
pub(super) fn story2() -> Result<Vec<Case>> {
    let rust = lab::collector()?;
    let c = lab::collector_in_c()?;
    // As many threads as run at once, and no more than a line has counters.
    let threads = processors().clamp(2, 8);
    let layout = |program: &Path, layout: &str, op: &str, total: &str| {
        let common = format!("--threads {threads} --runs 1 --layout {layout} --op {op}");
        Box::new(Program {
            path: program.to_owned(),
            look: format!("{common} --total {total}"),
            prove: format!("{common} --total 1e12"),
            timed: format!("{common} --total {total} --json"),
            meter: Meter::Collected,
        })
    };
    let case = |title, repair, slow, repaired, prove| Case {
        title,
        repair,
        expected: FIRST_COUNTERS,
        slow,
        repaired,
        prove,
        counted: Counted::SideBySide,
    };
    Ok(vec![
        case(
            "per-thread counters side by side, locked adds (Rust)",
            "each on a line of its own",
            layout(&rust, "packed", "rmw", "5e7"),
            layout(&rust, "padded", "rmw", "2e8"),
            true,
        ),
        case(
            "per-thread counters side by side, locked adds (Rust)",
            "hitm-counters, which needs no locked add",
            layout(&rust, "packed", "rmw", "5e7"),
            layout(&rust, "per-thread", "rmw", "2e9"),
            false,
        ),
        case(
            "per-thread counters side by side, locked adds (C)",
            "each on a line of its own",
            layout(&c, "packed", "rmw", "5e7"),
            layout(&c, "padded", "rmw", "2e8"),
            true,
        ),
        case(
            "per-thread counters side by side, plain `counter++`, which a store buffer may hide (Rust)",
            "each on a line of its own",
            layout(&rust, "packed", "plain", "5e8"),
            layout(&rust, "padded", "plain", "2e9"),
            true,
        ),
    ])
}
