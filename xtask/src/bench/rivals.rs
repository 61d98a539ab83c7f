//! Other tools that read layouts out of binaries: where to get them, and what to run.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::tools::{cargo, check, target_dir};

/// A published tool that is compared with hitm.
#[derive(Debug)]
pub(super) struct Rival {
    package: &'static str,
    version: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

/// Those that look for false sharing in a binary. The versions are stated so that a table can be made again.
pub(super) const RIVALS: [Rival; 2] = [
    Rival {
        package: "layout-audit",
        version: "0.5.0",
        program: "layout-audit",
        arguments: &["inspect", "--warn-false-sharing"],
    },
    Rival {
        package: "padlock-cli",
        version: "0.10.4",
        program: "padlock",
        arguments: &["analyze"],
    },
];

impl Rival {
    /// Name, version and what is run.
    pub(super) fn title(&self) -> String {
        format!(
            "{} {} ({} {})",
            self.package,
            self.version,
            self.program,
            self.arguments.join(" ")
        )
    }

    /// Builds it under the target directory, unless it is there.
    pub(super) fn install(&self) -> Result<PathBuf> {
        let root = target_dir()?.join("bench-tools");
        let program = root.join("bin").join(self.program);
        if !program.exists() {
            let version = format!("{}@{}", self.package, self.version);
            let mut install = cargo(&["install", "--locked", &version, "--root"]);
            check(install.arg(&root))?;
        }
        Ok(program)
    }

    /// The command that reads a binary.
    pub(super) fn command(&self, program: &Path, binary: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(self.arguments).arg(binary);
        command
    }
}
