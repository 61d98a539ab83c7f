//! Running other tools, and installing the few that tests need.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use hitm_testkit::have_tool;

/// The directory of the workspace.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// A cargo command in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Runs a command with our own output and fails if it fails.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let line = words
        .map(OsStr::to_string_lossy)
        .collect::<Vec<_>>()
        .join(" ");
    eprintln!("$ {line}");
    let status = command
        .status()
        .with_context(|| format!("cannot start {line}"))?;
    if !status.success() {
        bail!("{line}: {status}");
    }
    Ok(())
}

/// Whether a command can be started and succeeds, in silence.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Where cargo puts what it builds.
pub(crate) fn target_dir() -> Result<PathBuf> {
    let output = cargo(&["metadata", "--no-deps", "--format-version=1"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let directory = metadata["target_directory"]
        .as_str()
        .context("no target directory")?;
    Ok(directory.into())
}

/// Builds the optimised `hitm` and says where it is.
pub(crate) fn build_hitm() -> Result<PathBuf> {
    check(&mut cargo(&[
        "build",
        "--release",
        "--package=hitm",
        "--bin=hitm",
    ]))?;
    Ok(target_dir()?.join("release/hitm"))
}

/// Installs Debian packages for tools that are missing, where this process may; says what to install elsewhere.
///
/// Nothing fails here: whoever needs the tool skips visibly or fails with its name.
pub(crate) fn install(wanted: &[(&str, &str)]) {
    let missing: Vec<&str> = wanted
        .iter()
        .filter(|(tool, _)| !have_tool(tool))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return;
    }
    let packages = missing.join(" ");
    if !nix::unistd::geteuid().is_root() || !have_tool("apt-get") {
        eprintln!(
            "missing, some tests will be skipped; install them with: sudo apt-get install {packages}"
        );
        return;
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(arguments);
        check(&mut command)
    };
    let installed = apt(&["update", "-q"]).and_then(|()| {
        let mut arguments = vec!["install", "-q", "-y", "--no-install-recommends"];
        arguments.extend(missing);
        apt(&arguments)
    });
    if let Err(error) = installed {
        eprintln!("could not install {packages}, some tests will be skipped: {error:#}");
    }
}
