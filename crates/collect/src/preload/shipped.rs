//! How the agent and its channel reach the program: files without a name.
//!
//! Both are memory files of the recorder that the program opens as `/proc/RECORDER/fd/N`. Nothing is left behind when
//! the recorder is killed, a `/tmp` mounted `noexec` does not matter, the program inherits no descriptor, and the path
//! has none of the characters that separate the entries of `LD_PRELOAD`. Where the kernel refuses executable memory
//! files (`vm.memfd_noexec`) or `/proc` is another's, a private directory takes their place.

use std::{
    fs::{self, File},
    io::{self, Write},
    os::{
        fd::AsRawFd,
        unix::fs::{MetadataExt, PermissionsExt},
    },
    path::PathBuf,
};

use nix::sys::memfd::{MFdFlags, memfd_create};
use tempfile::TempDir;

/// Part of the names of both files, and of their lines in `/proc/PID/maps`.
pub(super) const NAME: &str = "hitm-agent";

/// The compiled agent.
static AGENT: &[u8] = include_bytes!(env!("HITM_AGENT"));

/// Since Linux 6.3 a memory file says whether it may be executed.
const MFD_EXEC: libc::c_uint = 0x10;

/// The agent's library and an empty file of the channel's size, where the program can open them.
#[derive(Debug)]
pub(super) struct Shipped {
    /// What `LD_PRELOAD` names.
    pub(super) library: PathBuf,
    /// The channel's path.
    pub(super) channel_path: PathBuf,
    /// The channel.
    pub(super) channel: File,
    /// Keeps the library's path valid.
    _library_file: Option<File>,
    /// Removed with everything in it at the end.
    _directory: Option<TempDir>,
}

impl Shipped {
    /// Makes both files.
    pub(super) fn new(channel_bytes: u64) -> io::Result<Self> {
        Self::in_memory(channel_bytes).or_else(|_| Self::in_directory(channel_bytes))
    }

    fn in_memory(channel_bytes: u64) -> io::Result<Self> {
        let (library, mut library_file) = memory_file(MFD_EXEC).or_else(|_| memory_file(0))?;
        library_file.write_all(AGENT)?;
        // `vm.memfd_noexec` takes the right to execute away without an error.
        if library_file.metadata()?.permissions().mode() & 0o100 == 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let (channel_path, channel) = memory_file(0)?;
        channel.set_len(channel_bytes)?;
        Ok(Self {
            library,
            channel_path,
            channel,
            _library_file: Some(library_file),
            _directory: None,
        })
    }

    fn in_directory(channel_bytes: u64) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix(&format!("{NAME}-"))
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()?;
        let library = directory.path().join(format!("{NAME}.so"));
        if library.to_string_lossy().contains([':', ' ']) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{} has a colon or a space, which LD_PRELOAD cannot have",
                    library.display()
                ),
            ));
        }
        fs::write(&library, AGENT)?;
        let channel_path = directory.path().join(format!("{NAME}.channel"));
        let channel = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&channel_path)?;
        channel.set_len(channel_bytes)?;
        Ok(Self {
            library,
            channel_path,
            channel,
            _library_file: None,
            _directory: Some(directory),
        })
    }
}

/// An empty memory file, and the path by which a child can open it.
fn memory_file(flags: libc::c_uint) -> io::Result<(PathBuf, File)> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::from_bits_retain(flags);
    let file = File::from(memfd_create(NAME, flags)?);
    let path = PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        file.as_raw_fd()
    ));
    // In another process-id namespace this path is somebody else's or nobody's.
    let found = fs::metadata(&path)?;
    let own = file.metadata()?;
    if (found.dev(), found.ino()) != (own.dev(), own.ino()) {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok((path, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shipped: &Shipped) {
        assert!(fs::read(&shipped.library).unwrap().starts_with(b"\x7fELF"));
        assert_eq!(fs::metadata(&shipped.channel_path).unwrap().len(), 4096);
        let opened = File::options()
            .read(true)
            .write(true)
            .open(&shipped.channel_path)
            .unwrap();
        assert_eq!(
            opened.metadata().unwrap().ino(),
            shipped.channel.metadata().unwrap().ino()
        );
    }

    #[test]
    fn memory_files_are_found_by_their_paths_and_end_with_the_recorder() {
        let shipped = Shipped::in_memory(4096).unwrap();
        check(&shipped);
        let library = shipped.library.clone();
        let inode = fs::metadata(&library).unwrap().ino();
        drop(shipped);
        // The descriptor's number may be in use again.
        assert!(fs::metadata(&library).map_or(true, |found| found.ino() != inode));
    }

    #[test]
    fn a_directory_is_private_and_removed() {
        let shipped = Shipped::in_directory(4096).unwrap();
        check(&shipped);
        let directory = shipped.library.parent().unwrap().to_owned();
        let mode = fs::metadata(&directory).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(shipped);
        assert!(!directory.exists());
    }
}
