//! Places in a program's source, and whether they are the program's own.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where the sources of the Rust, C and C++ standard libraries are, as debug information names them.
const LIBRARY_ROOTS: [&str; 3] = ["/rustc/", "/usr/include/", "/usr/lib/"];

/// The same where a toolchain was installed or built in a place of its own.
const LIBRARY_FOLDERS: [&str; 3] = ["/lib/rustlib/src/", "/include/c++/", "/library/core/src/"];

/// A function at a place in the source.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SourceFrame {
    /// The function's demangled name.
    pub function: String,
    /// The place, if known.
    pub line: Option<SourceLine>,
}

impl SourceFrame {
    /// Whether it is code of a standard library, or of another header of the system's, that was inlined into the
    /// program. By the file's name alone: without a place it counts as the program's own.
    #[must_use]
    pub fn is_library(&self) -> bool {
        self.line.as_ref().is_some_and(|line| {
            LIBRARY_ROOTS.iter().any(|root| line.file.starts_with(root))
                || LIBRARY_FOLDERS.iter().any(|part| line.file.contains(part))
        })
    }
}

/// A line of a source file.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct SourceLine {
    /// The file as the debug information names it.
    pub file: String,
    /// From 1; 0 if only the file is known.
    pub line: u32,
}

impl fmt::Display for SourceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            f.write_str(&self.file)
        } else {
            write!(f, "{}:{}", self.file, self.line)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_told_by_their_paths() {
        let library = |file: &str| {
            let line = Some(SourceLine {
                file: file.into(),
                line: 1,
            });
            let function = "f".into();
            SourceFrame { function, line }.is_library()
        };
        for file in [
            "/rustc/0123abcd/library/core/src/sync/atomic.rs",
            "/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/thread/mod.rs",
            "/usr/include/c++/14/bits/atomic_base.h",
            "/opt/gcc-15/include/c++/15/atomic",
        ] {
            assert!(library(file), "{file}");
        }
        for file in ["src/main.rs", "/home/me/usr/include/a.h", "library.c"] {
            assert!(!library(file), "{file}");
        }
        let function = "f".into();
        let line = None;
        assert!(!SourceFrame { function, line }.is_library());
    }
}
