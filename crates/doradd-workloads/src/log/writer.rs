//! Writing a log: all of it, or nothing that could be taken for a log.
//!
//! A regular file is written beside its final name and renamed when it is complete and on the disk. Anything else (a
//! pipe, a device) is written to directly, where its reader notices a log that is cut off.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use thiserror::Error;

use crate::log::record::Record;

/// Bytes that are collected before the system is asked to write.
const BUFFER: usize = 1 << 20;

/// Why a log could not be written. Nothing is left of it.
#[derive(Error, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// No file could be made there.
    #[error("cannot make a file for {}: name a directory that exists and that you may write to", path.display())]
    Create {
        /// What was to be written.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The disk is full, or something like that.
    #[error("cannot write {}: nothing is kept of it; make room, or write it elsewhere with `-o`", path.display())]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Not as many records came as were announced.
    #[error("{written} records were written and {announced} announced")]
    Count {
        /// Records that came.
        written: u64,
        /// What the header says.
        announced: u32,
    },
}

/// Writes a log of a number of records that is known beforehand.
#[derive(Debug)]
pub struct LogWriter {
    path: PathBuf,
    out: BufWriter<Out>,
    announced: u32,
    written: u64,
}

#[derive(Debug)]
enum Out {
    /// Gone if it is dropped.
    Fresh(NamedTempFile),
    Direct(File),
}

impl LogWriter {
    /// Begins a log in a file.
    ///
    /// # Errors
    /// If no file can be made or written there.
    pub fn create(path: &Path, count: u32) -> Result<Self, WriteError> {
        let create = |source| WriteError::Create {
            path: path.to_owned(),
            source,
        };
        // A link stays one: what it leads to is replaced.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let out = open(&path).map_err(create)?;
        Self::begin(path, out, count)
    }

    /// Begins a log in something that is open already, such as the standard output; `name` is for messages.
    ///
    /// # Errors
    /// If it cannot be written to.
    pub fn stream(file: File, name: &str, count: u32) -> Result<Self, WriteError> {
        Self::begin(name.into(), Out::Direct(file), count)
    }

    fn begin(path: PathBuf, out: Out, count: u32) -> Result<Self, WriteError> {
        let mut writer = Self {
            path,
            out: BufWriter::with_capacity(BUFFER, out),
            announced: count,
            written: 0,
        };
        writer.write(&count.to_le_bytes())?;
        Ok(writer)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// If the disk is full, or something like that.
    pub fn push(&mut self, record: &Record) -> Result<(), WriteError> {
        self.write(record)?;
        self.written += 1;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.out
            .write_all(bytes)
            .map_err(|source| WriteError::Write {
                path: self.path.clone(),
                source,
            })
    }

    /// Completes the log and gives it its name.
    ///
    /// # Errors
    /// If another number of records was written than announced, or what is written does not reach the disk.
    pub fn finish(self) -> Result<(), WriteError> {
        let Self {
            path,
            out,
            announced,
            written,
        } = self;
        if written != u64::from(announced) {
            return Err(WriteError::Count { written, announced });
        }
        let complete = || -> io::Result<()> {
            match out.into_inner().map_err(io::IntoInnerError::into_error)? {
                Out::Fresh(file) => {
                    file.as_file().sync_all()?;
                    file.persist(&path)?;
                }
                Out::Direct(mut file) => file.flush()?,
            }
            Ok(())
        };
        complete().map_err(|source| WriteError::Write {
            path: path.clone(),
            source,
        })
    }
}

fn open(path: &Path) -> io::Result<Out> {
    if fs::metadata(path).is_ok_and(|about| about.is_dir()) {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Ok(Out::Direct(OpenOptions::new().write(true).open(path)?));
    }
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // As a file that is made directly: what the mask of the process leaves.
    builder
        .prefix(".ycsb-")
        .permissions(Permissions::from_mode(0o666));
    Ok(Out::Fresh(builder.tempfile_in(directory)?))
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Fresh(file) => file.write(bytes),
            Self::Direct(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Fresh(file) => file.flush(),
            Self::Direct(file) => file.flush(),
        }
    }
}
