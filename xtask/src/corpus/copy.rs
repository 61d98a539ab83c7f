//! Copies a folder that may be read-only, and touches only what has changed, so that make builds only that.

use std::fs;
use std::io;
use std::path::Path;

/// What earlier builds left in a corpus; ours are made in the copy.
const BUILT: [&str; 3] = ["bin", "target", ".git"];

/// Makes `to` hold the files of `from`.
pub(crate) fn refresh(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if BUILT.iter().any(|built| name == *built) {
            continue;
        }
        let (source, copy) = (entry.path(), to.join(&name));
        if source.is_dir() {
            refresh(&source, &copy)?;
        } else {
            let bytes = fs::read(&source)?;
            if fs::read(&copy).ok().as_deref() != Some(&bytes) {
                fs::write(&copy, bytes)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sources_are_copied_and_unchanged_files_keep_their_time() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::write(from.join("a/x.c"), "1").unwrap();
        fs::write(from.join("a/y.c"), "1").unwrap();
        fs::write(from.join("bin/x"), "1").unwrap();
        refresh(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/x.c")).unwrap(), "1");
        assert!(!to.join("bin").exists());

        let time = |name: &str| fs::metadata(to.join(name)).unwrap().modified().unwrap();
        let (x, y) = (time("a/x.c"), time("a/y.c"));
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(from.join("a/y.c"), "2").unwrap();
        refresh(&from, &to).unwrap();
        assert_eq!(time("a/x.c"), x);
        assert!(time("a/y.c") > y);
    }
}
