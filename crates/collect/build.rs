//! Builds the preload agent, which the recorder carries in itself.
//!
//! The agent is `no_std` with panic=abort, so it has a workspace, a lock file and a target directory of its own. It is
//! built with the same cargo, without the flags, wrappers and profiles meant for the main workspace.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Variables that would make the agent something else than its manifest says.
const NOT_INHERITED: &[&str] = &[
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_TARGET_DIR",
    "CLIPPY_ARGS",
];

fn main() -> ExitCode {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let manifest_dir = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let agent = manifest_dir.join("../../runtime/agent");
    for input in ["Cargo.toml", "Cargo.lock", "src"] {
        println!("cargo::rerun-if-changed={}", agent.join(input).display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let target_dir = PathBuf::from(variable("OUT_DIR")).join("agent");
    let target = variable("TARGET");
    // What is needed is usually here already; where it is not, it is fetched.
    let built = build(&agent, &target_dir, &target, &["--offline"])
        .or_else(|_| build(&agent, &target_dir, &target, &[]));
    match built {
        Ok(()) => {
            let library = target_dir.join(target).join("release/libhitm_agent.so");
            println!("cargo::rustc-env=HITM_AGENT={}", library.display());
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("cargo::error=the preload agent in runtime/agent does not build: {why}");
            ExitCode::FAILURE
        }
    }
}

fn build(agent: &Path, target_dir: &Path, target: &str, more: &[&str]) -> Result<(), String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(agent)
        .args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--target",
            target,
        ])
        .arg("--manifest-path")
        .arg(agent.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .args(more);
    for name in NOT_INHERITED {
        cargo.env_remove(name);
    }
    // Flags and profiles for the main workspace: CARGO_TARGET_<triple>_RUSTFLAGS, CARGO_PROFILE_RELEASE_….
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let flags = name.starts_with("CARGO_TARGET_") && name.ends_with("_RUSTFLAGS");
        if flags || name.starts_with("CARGO_PROFILE_") {
            cargo.env_remove(&*name);
        }
    }
    let output = cargo.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr)
            .trim()
            .replace('\n', "; "))
    }
}
