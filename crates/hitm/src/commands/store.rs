//! The file that a recording goes to.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// A recording's file, which takes its name when the first events are written.
///
/// Until then it has the name `FILE.new`: a command that does not start leaves the old recording where it is. Then the
/// old one becomes `FILE.old`.
#[derive(Debug)]
pub(super) struct NewRecording {
    path: PathBuf,
    file: File,
    writes: u32,
}

/// The file header is the first write; events come with the second.
const WRITES_BEFORE_EVENTS: u32 = 1;

impl NewRecording {
    /// Creates the file.
    ///
    /// # Errors
    /// If it cannot be created, or the path is something other than a file.
    pub(super) fn create(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let other = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        anyhow::ensure!(
            !other,
            "the recording cannot be written to {shown}: it is not a regular file (choose another: -o FILE)"
        );
        let file = File::create(with_suffix(path, ".new")).with_context(|| {
            format!("cannot create the recording {shown} (choose another place: -o FILE)")
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            writes: 0,
        })
    }

    fn take_name(&self) -> io::Result<()> {
        match fs::rename(&self.path, with_suffix(&self.path, ".old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(with_suffix(&self.path, ".new"), &self.path)
    }

    fn is_named(&self) -> bool {
        self.writes > WRITES_BEFORE_EVENTS
    }
}

impl Write for NewRecording {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writes = self.writes.saturating_add(1);
        if self.writes == WRITES_BEFORE_EVENTS + 1 {
            self.take_name()?;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewRecording {
    fn drop(&mut self) {
        if !self.is_named() {
            // Nothing was recorded; that it cannot be removed either is no news to anybody.
            let _ = fs::remove_file(with_suffix(&self.path, ".new"));
        }
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_old_recording_is_kept_and_only_if_there_is_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.hitm");
        fs::write(&path, "old").unwrap();

        let mut unused = NewRecording::create(&path).unwrap();
        unused.write_all(b"header").unwrap();
        drop(unused);
        assert_eq!(fs::read(&path).unwrap(), b"old");

        let mut used = NewRecording::create(&path).unwrap();
        used.write_all(b"header").unwrap();
        used.write_all(b" events").unwrap();
        drop(used);
        assert_eq!(fs::read(&path).unwrap(), b"header events");
        assert_eq!(fs::read(folder.path().join("a.hitm.old")).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
