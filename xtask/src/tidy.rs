//! What rustfmt and clippy do not look at: how long files are, whether they say why they exist, stray words.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Lines from which a file must say in its module doc why it is that long (the word "length" is looked for).
const LONG: usize = 600;
/// Lines from which a file may only hold tables (the word "table" is looked for).
const TOO_LONG: usize = 1000;
const MAIN_RS: usize = 40;
const LIB_RS: usize = 150;

/// Words that are left-overs wherever they are committed; in pieces, so that this file is clean itself.
const FORBIDDEN: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("place", "holder\n"),
    concat!("XX", "X"),
];

const FOLDERS: [&str; 8] = [
    "crates", "xtask", "labs", "fuzz", "runtime", "docs", ".ci", ".config",
];

/// Everything untidy below `root`, as `path: what`.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
    }
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "md" || extension == "toml")
        {
            files.push(path);
        }
    }
    files.sort();
    let home = root.to_string_lossy();
    let mut faults = Vec::new();
    for file in files {
        let bytes = fs::read(&file).with_context(|| file.display().to_string())?;
        // Binary files are not ours to judge.
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy();
        faults.extend(faults_of(&path, &text, &home).map(|fault| format!("{path}: {fault}")));
    }
    Ok(faults)
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            if name != "target" && name != "corpus" && name != "artifacts" {
                collect(&path, files)?;
            }
        } else if name != "Cargo.lock" {
            files.push(path);
        }
    }
    Ok(())
}

/// What is untidy in one file.
fn faults_of(path: &str, text: &str, home: &str) -> impl Iterator<Item = String> {
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if home.len() > 1 && text.contains(home) {
        faults.push("names a directory of this machine".to_owned());
    }
    for word in FORBIDDEN.iter().filter(|word| text.contains(*word)) {
        faults.push(format!("contains {}", word.trim()));
    }
    if !text.is_empty() && !text.ends_with('\n') {
        faults.push("does not end in a line break".to_owned());
    }
    if let Some(number) = text.lines().position(|line| line.ends_with([' ', '\t'])) {
        faults.push(format!("line {} ends in white space", number + 1));
    }
    if path.ends_with(".rs") && !path.contains("/fixtures/") {
        let doc: String = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect();
        if doc.is_empty() {
            faults.push("has no module doc".to_owned());
        }
        let allowed = match path.rsplit('/').next() {
            Some("main.rs") if path.ends_with("src/main.rs") => MAIN_RS,
            Some("lib.rs") => LIB_RS,
            _ if doc.contains("table") => usize::MAX,
            _ if doc.contains("length") => TOO_LONG,
            _ => LONG,
        };
        if lines > allowed {
            faults.push(format!("has {lines} lines, {allowed} are allowed here"));
        }
    }
    faults.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let faults: Vec<String> = faults_of(path, text, "/somewhere/hitm").collect();
        assert_eq!(faults, expected, "{path}");
    }

    #[test]
    fn every_rule_fires_and_tidy_files_pass() {
        check("crates/a/src/x.rs", "//! Why.\n\nfn f() {}\n", &[]);
        check("crates/a/src/x.rs", "fn f() {}\n", &["has no module doc"]);
        check("crates/t/fixtures/x.rs", "fn f() {}\n", &[]);
        check(
            "docs/x.md",
            "see /somewhere/hitm/x\n",
            &["names a directory of this machine"],
        );
        check(
            "docs/x.md",
            concat!("TO", "DO later\n"),
            &[concat!("contains TO", "DO")],
        );
        check("docs/x.md", "no end", &["does not end in a line break"]);
        check("docs/x.md", "a\nb \n", &["line 2 ends in white space"]);
        let long = |doc: &str, n: usize| format!("{doc}\n{}", "x();\n".repeat(n - 1));
        check("crates/a/src/x.rs", &long("//! Why.", 600), &[]);
        check(
            "crates/a/src/x.rs",
            &long("//! Why.", 601),
            &["has 601 lines, 600 are allowed here"],
        );
        check(
            "crates/a/src/x.rs",
            &long("//! Why this length.", 1000),
            &[],
        );
        check(
            "crates/a/src/x.rs",
            &long("//! Why this length.", 1001),
            &["has 1001 lines, 1000 are allowed here"],
        );
        check(
            "crates/a/src/x.rs",
            &long("//! The table of it.", 2000),
            &[],
        );
        check(
            "crates/a/src/lib.rs",
            &long("//! Why.", 151),
            &["has 151 lines, 150 are allowed here"],
        );
        check(
            "xtask/src/main.rs",
            &long("//! Why.", 41),
            &["has 41 lines, 40 are allowed here"],
        );
    }
}
