//! The kernel's text files, behind one door.
//!
//! Every probe reads `/proc` and `/sys` through a [`SystemFiles`], so that a test can put a fixture tree in their place,
//! and so that a file that is missing (a container, an older kernel) is an ordinary `None` everywhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Where `proc` and `sys` are looked for.
#[derive(Clone, Debug)]
pub struct SystemFiles {
    root: PathBuf,
}

impl SystemFiles {
    /// Those of the running kernel.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::below("/")
    }

    /// Those below a directory that has a `proc` and a `sys` of its own.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The text of a file given relative to the root, without the white space around it; `None` if it cannot be read.
    #[must_use]
    pub fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.root.join(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The number in a file.
    #[must_use]
    pub fn number<N: std::str::FromStr>(&self, path: impl AsRef<Path>) -> Option<N> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, sorted; empty if it cannot be read.
    #[must_use]
    pub fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.root.join(path)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Whether a file or directory is there.
    #[must_use]
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.root.join(path).exists()
    }
}
