//! Files for the analysis: binaries, their separate debug files, recordings.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hitm_analysis::{BinarySource, Recording};
use hitm_binary::image::Image;
use hitm_model::{Caveat, Event, Pid};
use hitm_recording::{Damage, Reader};
use memmap2::Mmap;
use nix::fcntl::OFlag;

/// Where distributions put separate debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// Maps the files of a recording and keeps them mapped for the rest of the process.
#[derive(Debug, Default)]
pub(crate) struct Files {
    alive: Option<Pid>,
    mapped: RefCell<HashMap<PathBuf, Option<&'static [u8]>>>,
}

impl Files {
    /// Files as `alive` sees them, the recorded process if it still lives; else, and after that, as we do.
    pub(crate) fn seen_by(alive: Option<Pid>) -> Self {
        Self {
            alive,
            ..Self::default()
        }
    }

    fn map(&self, path: &Path) -> io::Result<&'static [u8]> {
        if let Some(Some(known)) = self.mapped.borrow().get(path) {
            return Ok(known);
        }
        let bytes = map_file(path)?;
        self.mapped
            .borrow_mut()
            .insert(path.to_owned(), Some(bytes));
        Ok(bytes)
    }
}

impl BinarySource<'static> for Files {
    fn bytes(&self, path: &str) -> Result<&'static [u8], String> {
        if let Some(pid) = self.alive {
            let inside = PathBuf::from(format!("/proc/{pid}/root{path}"));
            if let Ok(bytes) = self.map(&inside) {
                return Ok(bytes);
            }
        }
        self.map(Path::new(path)).map_err(|error| error.to_string())
    }

    fn debug_bytes(&self, path: &str, image: &Image<'static>) -> Option<&'static [u8]> {
        if image.debug_level() == hitm_binary::image::DebugLevel::Full {
            return None;
        }
        let by_build_id = image.build_id().map(|id| {
            let id = id.to_string();
            let (head, tail) = id.split_at(id.len().min(2));
            PathBuf::from(format!("{DEBUG_ROOT}/.build-id/{head}/{tail}.debug"))
        });
        let by_link = image.debug_link().map(|(name, _)| {
            use std::os::unix::ffi::OsStrExt as _;
            let name = std::ffi::OsStr::from_bytes(name);
            let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
            let below_root = folder.strip_prefix("/").unwrap_or(folder);
            [
                folder.join(name),
                folder.join(".debug").join(name),
                Path::new(DEBUG_ROOT).join(below_root).join(name),
            ]
        });
        by_build_id
            .into_iter()
            .chain(by_link.into_iter().flatten())
            .filter(|candidate| candidate != Path::new(path))
            .find_map(|candidate| self.map(&candidate).ok())
    }
}

/// Opens a regular file; anything else (a device, a fifo) is refused and cannot block.
fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ))
    }
}

/// Maps a regular file.
fn map_file(path: &Path) -> io::Result<&'static [u8]> {
    let file = open_regular(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(&[]);
    }
    #[expect(
        unsafe_code,
        reason = "mapping a file is unsafe as others may change it"
    )]
    // SAFETY: binaries are replaced, not rewritten in place, by every linker and package manager; the bytes are only
    // read, and all readers take damaged bytes as data. A file that is truncated while it is mapped would end hitm
    // with SIGBUS, as it would every other program that has it mapped, its own process first.
    let map = unsafe { Mmap::map(&file)? };
    // The map lives as long as the process: a command looks at a handful of files and ends.
    Ok(Box::leak(Box::new(map)))
}

/// A recording in a file.
#[derive(Debug)]
pub(crate) struct RecordingFile {
    path: PathBuf,
    file: File,
    damage: RefCell<Option<Damage>>,
    has_end: Cell<bool>,
}

/// A file from its beginning, whoever else reads or writes it.
#[derive(Debug)]
struct FromStart<'a> {
    file: &'a File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

impl RecordingFile {
    /// Opens a recording and looks at its head.
    ///
    /// # Errors
    /// If it cannot be read, or is none.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let file = open_regular(path).with_context(|| {
            let shown = path.display();
            format!("cannot open the recording {shown} (make one: hitm run -- COMMAND)")
        })?;
        let recording = Self::opened(path, file);
        recording.reader()?;
        Ok(recording)
    }

    /// A recording that is open already.
    pub(crate) fn opened(path: &Path, file: File) -> Self {
        Self {
            path: path.to_owned(),
            file,
            damage: RefCell::new(None),
            has_end: Cell::new(false),
        }
    }

    fn reader(&self) -> anyhow::Result<Reader<BufReader<FromStart<'_>>>> {
        let from_start = FromStart {
            file: &self.file,
            at: 0,
        };
        Reader::new(BufReader::with_capacity(1 << 20, from_start))
            .with_context(|| format!("cannot read the recording {}", self.path.display()))
    }

    /// What was wrong with it, after it has been read.
    pub(crate) fn caveats(&self) -> Vec<Caveat> {
        let damage = *self.damage.borrow();
        let mut caveats = damage.as_ref().map_or_else(Vec::new, Damage::caveats);
        // A recorder that is killed, or whose disk is full, may stop behind a whole block.
        if caveats.is_empty() && !self.has_end.get() {
            caveats.push(Caveat::RecordingTruncated);
        }
        caveats
    }
}

impl Recording for RecordingFile {
    fn events(&self) -> Box<dyn Iterator<Item = Event> + '_> {
        // Nothing can be read from it: there is nothing in it.
        let Ok(mut reader) = self.reader() else {
            return Box::new(std::iter::empty());
        };
        Box::new(std::iter::from_fn(move || {
            let event = reader.next();
            if let Some(Event::Ended { .. }) = event {
                self.has_end.set(true);
            }
            if event.is_none() {
                *self.damage.borrow_mut() = Some(reader.damage());
            }
            event
        }))
    }
}
