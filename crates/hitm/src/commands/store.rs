//! The file that a recording goes to.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::replace::{behind_links, with_suffix};
use crate::load::RecordingFile;

/// A recording's file, which takes its name when the first events are written.
///
/// Until then it has a name of its own: a command that does not start leaves the old recording where it is, and two
/// recorders do not write to one file. Then the old one becomes `FILE.old`.
#[derive(Debug)]
pub(super) struct NewRecording {
    path: PathBuf,
    unnamed: PathBuf,
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
        let path = &behind_links(path);
        let other = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
        anyhow::ensure!(
            !other,
            "the recording cannot be written to {shown}: it is not a regular file (choose another: -o FILE)"
        );
        let unnamed = with_suffix(path, &format!(".{}.new", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&unnamed)
            .with_context(|| {
                format!("cannot create the recording {shown} (choose another place: -o FILE)")
            })?;
        Ok(Self {
            path: path.clone(),
            unnamed,
            file,
            writes: 0,
        })
    }

    /// The same file, to be read once it is written: its name may be another recording's by then.
    ///
    /// # Errors
    /// If there are too many open files.
    pub(super) fn reader(&self) -> anyhow::Result<RecordingFile> {
        let file = self
            .file
            .try_clone()
            .context("cannot keep the recording open")?;
        Ok(RecordingFile::opened(&self.path, file))
    }

    fn take_name(&self) -> io::Result<()> {
        match fs::rename(&self.path, with_suffix(&self.path, ".old")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::rename(&self.unnamed, &self.path)
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
            let _ = fs::remove_file(&self.unnamed);
        }
    }
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

    #[test]
    fn a_link_stays_and_leads_to_the_new_recording() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.hitm"), folder.path().join("link"));
        std::os::unix::fs::symlink("a.hitm", &link).unwrap();
        let mut file = NewRecording::create(&link).unwrap();
        file.write_all(b"header").unwrap();
        file.write_all(b" events").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"header events");
        assert_eq!(fs::read_link(&link).unwrap(), Path::new("a.hitm"));
    }
}
