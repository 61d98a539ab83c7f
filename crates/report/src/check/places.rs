//! Paths as others know them: code scanners and the log of a build show a source only by its path in the repository.

/// The directories that paths are relative to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceTree {
    /// The top of the sources, absolute.
    pub root: String,
    /// Where the command was typed, absolute.
    pub typed_in: String,
}

impl SourceTree {
    /// The path below the root of a source file, which debug information names; `None` if it is elsewhere.
    pub(super) fn source(&self, file: &str) -> Option<String> {
        // A path that is not absolute was made so by who built it, and is meant from the top.
        self.below_root(&joined(&self.root, file))
    }

    /// The path below the root of a file that was named in the command.
    pub(super) fn named(&self, file: &str) -> Option<String> {
        self.below_root(&joined(&self.typed_in, file))
    }

    fn below_root(&self, path: &str) -> Option<String> {
        let (path, root) = (parts(path), parts(&self.root));
        let below = path.strip_prefix(root.as_slice())?;
        (!below.is_empty()).then(|| below.join("/"))
    }
}

fn joined(directory: &str, file: &str) -> String {
    match file.starts_with('/') {
        true => file.to_owned(),
        false => format!("{directory}/{file}"),
    }
}

/// The parts of an absolute path, without `.` and `..`.
fn parts(path: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts
}

/// An absolute path without `.` and `..`, any other as it is.
pub(super) fn plain(path: &str) -> String {
    match path.starts_with('/') {
        true => format!("/{}", parts(path).join("/")),
        false => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_repository() {
        let tree = SourceTree {
            root: "/home/me/project/".to_owned(),
            typed_in: "/home/me/project/build".to_owned(),
        };
        for (file, of_source, named) in [
            ("/home/me/project/src/a.c", Some("src/a.c"), Some("src/a.c")),
            (
                "/home/me/project/build/../src/a.c",
                Some("src/a.c"),
                Some("src/a.c"),
            ),
            ("src/a.c", Some("src/a.c"), Some("build/src/a.c")),
            ("../app", None, Some("app")),
            ("./app", Some("app"), Some("build/app")),
            ("/home/me/projects/a.c", None, None),
            ("/usr/include/stdio.h", None, None),
            ("/home/me/project", None, None),
        ] {
            assert_eq!(tree.source(file).as_deref(), of_source, "{file}");
            assert_eq!(tree.named(file).as_deref(), named, "{file}");
        }
        assert_eq!(plain("/a/b/../c//d/."), "/a/c/d");
        assert_eq!(plain("a/../b"), "a/../b");
    }
}
