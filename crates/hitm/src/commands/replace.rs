//! Files that are replaced whole or not at all: a full disk leaves the old one, and no half of a new one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Writes a file anew.
///
/// # Errors
/// If it cannot be written. An old file is still there then.
pub(super) fn replace(path: &Path, write: impl FnOnce(File) -> io::Result<()>) -> io::Result<()> {
    let path = behind_links(path);
    let old = fs::metadata(&path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        // A pipe, or a device: nothing is lost there. A directory refuses.
        return write(File::options().write(true).open(&path)?);
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
