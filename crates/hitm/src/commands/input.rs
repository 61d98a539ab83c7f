//! Small texts that a user wrote, as a policy: read whole, whatever is there under that name.
//!
//! A pipe that nobody writes to would be waited for for ever, a device may have no end, and a file by mistake may be larger
//! than memory. So regular files are read up to a limit; of the rest what has an end or a writer for sure: an empty device
//! (`/dev/null`), and what the caller has opened for us (`<(…)` of a shell, stdin).

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::fcntl::OFlag;

/// Major and minor number of `/dev/null` on Linux.
const NULL: (u64, u64) = (1, 3);

/// Reads a text of at most `most` bytes.
///
/// # Errors
/// If it cannot be read, is no text, is larger, or is something that may never end.
pub(super) fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(invalid(format!(
            "it is larger than {} KiB: is it another file?",
            most / 1024
        )));
    }
    String::from_utf8(bytes).map_err(|_| invalid("it is not a text in UTF-8".to_owned()))
}

fn open(path: &Path) -> io::Result<File> {
    if is_open_already(path) {
        return File::open(path);
    }
    // Opening a pipe would wait for who writes to it.
    let file = File::options()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let about = file.metadata()?;
    let kind = about.file_type();
    let what = if kind.is_file() || is_null(&about) {
        return Ok(file);
    } else if kind.is_dir() {
        "it is a directory"
    } else if kind.is_fifo() {
        "it is a named pipe, which may never be written to"
    } else {
        "it is a device"
    };
    Err(invalid(format!("{what}, not a file")))
}

/// Whether a path means what the caller has opened for us.
fn is_open_already(path: &Path) -> bool {
    let folders = ["/dev/fd", "/proc/self/fd"].map(Path::new);
    path == Path::new("/dev/stdin") || folders.iter().any(|it| path.parent() == Some(it))
}

fn is_null(about: &std::fs::Metadata) -> bool {
    let device = about.rdev();
    let number = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    about.file_type().is_char_device() && number == NULL
}

fn invalid(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}
