//! The stories as programs: builds them, and shows what hitm says of both layouts.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::ValueEnum;
use hitm_testkit::{Language, compile_program};

use crate::tools::{build_hitm, check, install, root};

/// The labs.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Lab {
    /// Two globals of different subsystems on one line of .bss.
    Story1,
}

/// Builds a lab; runs it under hitm in both layouts if asked to.
pub(crate) fn run(lab: Lab, run: bool, seconds: u32) -> Result<()> {
    let program = build(lab)?;
    let shown = program.display();
    if !run {
        println!("hitm run -- {shown} --seconds {seconds}");
        println!("hitm run -- {shown} --seconds {seconds} --fixed");
        return Ok(());
    }
    let hitm = build_hitm()?;
    let recording = program.with_extension("hitm");
    for layout in [None, Some("--fixed")] {
        let mut command = Command::new(&hitm);
        command
            .arg("run")
            .arg("-o")
            .arg(&recording)
            .arg("--")
            .arg(&program);
        check(
            command
                .args(["--seconds", &seconds.to_string()])
                .args(layout),
        )?;
    }
    Ok(())
}

fn build(lab: Lab) -> Result<PathBuf> {
    install(&[("g++", "g++")]);
    let (source, flags) = match lab {
        Lab::Story1 => ("labs/story1/story1.cpp", ["-O3", "-fno-toplevel-reorder"]),
    };
    Ok(compile_program(Language::Cpp, &root().join(source), &flags)?.program)
}
