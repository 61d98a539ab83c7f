//! The stories as programs: builds them, and shows what hitm says of their layouts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;
use hitm_testkit::{Language, compile_program};

use crate::stories::server;
use crate::tools::{build_hitm, cargo, check, install, root, target_dir};

/// The labs.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Lab {
    /// Two globals of different subsystems on one line of .bss.
    Story1,
    /// Per-thread counters side by side in an array, in Rust and in C.
    Collector,
    /// A server whose IO threads count side by side in arrays, under redis-benchmark.
    Ioserver,
}

/// A program of a lab, with the options of each of its layouts.
struct Shown {
    program: PathBuf,
    layouts: Vec<String>,
}

/// Builds a lab; runs it under hitm in all layouts if asked to.
pub(crate) fn run(lab: Lab, run: bool, seconds: u32) -> Result<()> {
    let shown = match lab {
        Lab::Ioserver if run => return server::show(&build_hitm()?, &target_dir()?, seconds),
        Lab::Ioserver => return server::print_commands(seconds),
        Lab::Story1 => vec![Shown {
            program: story1()?,
            layouts: vec![
                format!("--seconds {seconds}"),
                format!("--seconds {seconds} --fixed"),
            ],
        }],
        Lab::Collector => [collector()?, collector_in_c()?]
            .map(|program| Shown {
                program,
                layouts: collector_layouts(seconds),
            })
            .into(),
    };
    if !run {
        for Shown { program, layouts } in &shown {
            for layout in layouts {
                println!("hitm run -- {} {layout}", program.display());
            }
        }
        return Ok(());
    }
    let hitm = build_hitm()?;
    for Shown { program, layouts } in &shown {
        for layout in layouts {
            hitm_run(&hitm, program, layout)?;
        }
    }
    Ok(())
}

fn hitm_run(hitm: &Path, program: &Path, layout: &str) -> Result<()> {
    let mut command = Command::new(hitm);
    command
        .args(["run", "-o"])
        .arg(program.with_extension("hitm"))
        .arg("--")
        .arg(program)
        .args(layout.split_whitespace());
    check(&mut command)
}

/// The layouts, each with about as much to count as takes so long: packed counters are several times slower.
fn collector_layouts(seconds: u32) -> Vec<String> {
    let total = |per_second: u64| u64::from(seconds) * per_second;
    vec![
        format!("--layout packed --runs 1 --total {}", total(70_000_000)),
        format!("--layout padded --runs 1 --total {}", total(400_000_000)),
        format!(
            "--layout per-thread --runs 1 --total {}",
            total(4_000_000_000)
        ),
        format!(
            "--layout packed --op plain --runs 1 --total {}",
            total(1_000_000_000)
        ),
    ]
}

/// Builds story 1.
pub(crate) fn story1() -> Result<PathBuf> {
    install(&[("g++", "g++")]);
    let source = root().join("labs/story1/story1.cpp");
    let flags = ["-O3", "-fno-toplevel-reorder"];
    Ok(compile_program(Language::Cpp, &source, &flags)?.program)
}

/// Builds the collector in Rust.
pub(crate) fn collector() -> Result<PathBuf> {
    check(&mut cargo(&["build", "--release", "--package=collector"]))?;
    Ok(target_dir()?.join("release/collect"))
}

/// Builds the collector in C.
pub(crate) fn collector_in_c() -> Result<PathBuf> {
    install(&[("gcc", "gcc")]);
    let source = root().join("labs/collector/collect.c");
    Ok(compile_program(Language::C, &source, &[])?.program)
}
