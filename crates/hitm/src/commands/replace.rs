//! Files that are replaced whole or not at all: a full disk leaves the old one, and no half of a new one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// So long somebody may take to come and read a named pipe.
const FOR_A_READER: Duration = Duration::from_secs(5);

/// Writes a file anew.
///
/// # Errors
/// If it cannot be written. An old file is still there then.
pub(super) fn replace(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    let path = behind_links(path);
    let old = fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        // A pipe, or a device: nothing is lost there. A directory refuses.
        return write(open_other(&path)?);
    }
    let unnamed = with_suffix(&path, &format!(".{}.new", std::process::id()));
    let file = match File::options().write(true).create_new(true).open(&unnamed) {
        Ok(file) => file,
        // A file may be writable in a directory that is not.
        Err(error) if old.is_some() && error.kind() == io::ErrorKind::PermissionDenied => {
            return write(File::create(&path)?);
        }
        Err(error) => return Err(error),
    };
    let written = write(file).and_then(|()| {
        if let Some(old) = old {
            fs::set_permissions(&unnamed, old.permissions())?;
        }
        fs::rename(&unnamed, &path)
    });
    if written.is_err() {
        // That the rest cannot be removed either is no news to anybody.
        let _ = fs::remove_file(&unnamed);
    }
    written
}

/// Opens what is no file for writing; a named pipe, once somebody reads it.
fn open_other(path: &Path) -> io::Result<File> {
    let began = Instant::now();
    let nobody_reads = nix::errno::Errno::ENXIO as i32;
    loop {
        let opened = File::options()
            .write(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(path);
        match opened {
            Ok(file) => {
                // Who reads slowly is waited for.
                fcntl(&file, FcntlArg::F_SETFL(OFlag::empty()))?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() != Some(nobody_reads) => return Err(error),
            Err(_) if began.elapsed() > FOR_A_READER => {
                return Err(io::Error::other("nobody reads from this pipe"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The file that a path means: a link stays, and what it leads to is replaced.
pub(super) fn behind_links(path: &Path) -> PathBuf {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path = path
            .parent()
            .map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    path
}

/// A path with something behind it.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_named_pipe_waits_for_its_reader() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let text = "more than a pipe holds ".repeat(10_000);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| fs::read_to_string(&pipe).unwrap());
            replace(&pipe, |mut file| file.write_all(text.as_bytes())).unwrap();
            assert_eq!(reader.join().unwrap(), text);
        });
        let error = replace(&pipe, |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "nobody reads from this pipe");
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("file"), folder.path().join("link"));
        symlink("file", &link).unwrap();
        replace(&link, |mut file| file.write_all(b"first")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();

        let half = replace(&path, |mut file| {
            file.write_all(b"ha")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert!(half.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"first");

        replace(&path, |mut file| file.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&link).unwrap(), b"second");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        assert!(link.is_symlink());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(replace(folder.path(), |_| Ok(())).is_err());
    }
}
