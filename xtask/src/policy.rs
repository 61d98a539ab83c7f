//! The layout that the runtime must have, checked in the program without running it: `hitm check` with the policy of
//! doradd's programs passes on the usual build, and fails on the one with the false sharing of story 1.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::tools::{cargo, check, target_dir};

const POLICY: &str = "crates/doradd-workloads/hitm.toml";
/// What `hitm check` must say of the build with the feature.
const VIOLATION: &str = "Progress.spawned and Progress.signals share a line";

/// Checks both builds.
pub(crate) fn policy() -> Result<()> {
    check(&mut cargo(&["build", "--package=hitm", "--bin=hitm"]))?;
    let built = target_dir()?.join("debug");
    let hitm = built.join("hitm");
    let build = |features: &[&str]| {
        let ycsb = ["build", "--package=doradd-workloads", "--bin=ycsb"];
        check(cargo(&ycsb).args(features))
    };
    build(&["--features=story1-false-sharing"])?;
    let faulty = built.join("ycsb-story1");
    fs::copy(built.join("ycsb"), &faulty).context("cannot copy the program")?;
    // Last, so that what lies there afterwards is what people expect.
    build(&[])?;
    let (code, said) = violations(&hitm, &faulty)?;
    if code != Some(1) || !said.contains(VIOLATION) {
        bail!(
            "hitm check does not find the false sharing of story 1 in {}:\n{said}",
            faulty.display()
        );
    }
    let repaired = built.join("ycsb");
    let (code, said) = violations(&hitm, &repaired)?;
    if code != Some(0) {
        bail!("{} violates {POLICY}:\n{said}", repaired.display());
    }
    eprintln!("{POLICY}: kept by ycsb, and violated by its build with story1-false-sharing");
    Ok(())
}

/// The exit code of `hitm check`, and all it said.
fn violations(hitm: &Path, program: &Path) -> Result<(Option<i32>, String)> {
    let mut command = std::process::Command::new(hitm);
    let output = command
        .current_dir(crate::tools::root())
        .args(["check", "--policy", POLICY, "--json"])
        .arg(program)
        .output()
        .context("cannot start hitm")?;
    let mut said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), said))
}
