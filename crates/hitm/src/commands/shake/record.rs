//! What is kept of a link, so that it can be repeated: the words, where it ran, its environment, and copies of the files
//! that may be gone by then.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use hitm_binary::relocatable::{ObjectKind, object_kind};

use super::link_line::{is_start_file, output};

/// A link that made a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Record {
    /// The linker itself.
    pub linker: PathBuf,
    /// Where it ran.
    pub directory: PathBuf,
    /// What it was told, with copies in place of files.
    pub words: Vec<OsString>,
    /// Places of the words that are object files of machine code: these may change places.
    pub objects: Vec<usize>,
    /// Whether some are of an intermediate language (LTO).
    pub has_lto: bool,
    /// The environment.
    pub variables: Vec<(OsString, OsString)>,
}

/// The file in the directory of a record.
const LINE: &str = "line";

impl Record {
    /// What the link made.
    pub(super) fn output(&self) -> PathBuf {
        self.directory.join(output(&self.words))
    }

    /// Makes a record in a new directory below `links`. Files below `fleeting` are copied, and all objects.
    pub(super) fn make(
        links: &Path,
        fleeting: &Path,
        linker: &Path,
        words: &[OsString],
    ) -> io::Result<()> {
        let folder = new_folder(links)?;
        let directory = std::env::current_dir()?;
        let mut record = Self {
            linker: linker.to_owned(),
            words: words.to_vec(),
            objects: Vec::new(),
            has_lto: false,
            variables: std::env::vars_os().collect(),
            directory,
        };
        let made = output(words);
        for (at, word) in words.iter().enumerate() {
            let path = record.directory.join(word);
            if word.as_bytes().starts_with(b"-") || Path::new(word) == made {
                continue;
            }
            let Some(kind) = kind_of(&path) else {
                continue;
            };
            record.has_lto |= kind == ObjectKind::Intermediate;
            if !is_start_file(word) {
                let copy = folder.join(format!("{at}.o"));
                fs::copy(&path, &copy)?;
                record.words[at] = copy.into();
                if kind == ObjectKind::Native {
                    record.objects.push(at);
                }
            }
        }
        for (at, word) in record.words.iter_mut().enumerate() {
            if let Some(kept) = keep_fleeting(word, fleeting, &folder, at)? {
                *word = kept;
            }
        }
        // The line comes last: a record without one is none.
        let unfinished = folder.join("line.unfinished");
        fs::write(&unfinished, record.to_bytes())?;
        fs::rename(unfinished, folder.join(LINE))
    }

    /// All records, the oldest first.
    pub(super) fn all(links: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(links)? {
            let line = entry?.path().join(LINE);
            if let Ok(bytes) = fs::read(&line)
                && let Some(record) = Self::from_bytes(&bytes)
            {
                found.push((fs::metadata(&line)?.modified()?, record));
            }
        }
        found.sort_by_key(|(time, _)| *time);
        Ok(found.into_iter().map(|(_, record)| record).collect())
    }

    /// Fields end with a zero byte, which no word has.
    fn to_bytes(&self) -> Vec<u8> {
        let mut fields: Vec<OsString> = vec![
            self.linker.clone().into(),
            self.directory.clone().into(),
            if self.has_lto { "lto" } else { "" }.into(),
            self.objects.len().to_string().into(),
        ];
        fields.extend(self.objects.iter().map(|at| OsString::from(at.to_string())));
        fields.push(self.words.len().to_string().into());
        fields.extend(self.words.iter().cloned());
        fields.push(self.variables.len().to_string().into());
        for (name, value) in &self.variables {
            fields.extend([name.clone(), value.clone()]);
        }
        let mut bytes = Vec::new();
        for field in fields {
            bytes.extend(field.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let body = bytes.strip_suffix(b"\0")?;
        let mut fields = body
            .split(|byte| *byte == 0)
            .map(|field| OsString::from_vec(field.to_vec()));
        let number = |field: Option<OsString>| field?.to_str()?.parse::<usize>().ok();
        let linker = fields.next()?.into();
        let directory = fields.next()?.into();
        let has_lto = fields.next()? == "lto";
        let n_objects = number(fields.next())?;
        let objects: Vec<usize> = (0..n_objects)
            .map(|_| number(fields.next()))
            .collect::<Option<_>>()?;
        let n_words = number(fields.next())?;
        let words: Vec<OsString> = (0..n_words).map(|_| fields.next()).collect::<Option<_>>()?;
        let n_variables = number(fields.next())?;
        let variables = (0..n_variables)
            .map(|_| Some((fields.next()?, fields.next()?)))
            .collect::<Option<_>>()?;
        objects.iter().all(|at| *at < words.len()).then_some(Self {
            linker,
            directory,
            words,
            objects,
            has_lto,
            variables,
        })
    }
}

/// Links run side by side, each in a process of its own.
fn new_folder(links: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    for number in 0.. {
        let folder = links.join(format!("{pid}-{number}"));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The kind of an object file; `None` of anything else, archives too.
pub(super) fn kind_of(path: &Path) -> Option<ObjectKind> {
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let starts_so = |magic: &[u8]| {
        use io::Read as _;
        let mut first = [0; 4];
        let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut first));
        read.is_ok() && first == magic
    };
    // Libraries and archives may be large: they are not read to the end for this.
    let candidates: [&[u8]; 3] = [b"\x7fELF", b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];
    if !candidates.iter().any(|magic| starts_so(magic)) {
        return None;
    }
    object_kind(&fs::read(path).ok()?)
}

/// A word that names a file which the compiler deletes after the link, alone or behind an option: the same with a copy.
fn keep_fleeting(
    word: &OsStr,
    fleeting: &Path,
    folder: &Path,
    at: usize,
) -> io::Result<Option<OsString>> {
    let (bytes, start) = (word.as_bytes(), fleeting.as_os_str().as_bytes());
    let found = bytes
        .windows(start.len().max(1))
        .position(|window| window == start);
    let Some(from) = found else {
        return Ok(None);
    };
    let path = Path::new(OsStr::from_bytes(&bytes[from..]));
    if !path.is_file() {
        return Ok(None);
    }
    let name = path.file_name().unwrap_or_default();
    let kept = folder.join(format!("kept-{at}"));
    fs::create_dir(&kept)?;
    let kept = kept.join(name);
    fs::copy(path, &kept)?;
    let mut new = bytes[..from].to_vec();
    new.extend(kept.as_os_str().as_bytes());
    Ok(Some(OsString::from_vec(new)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record {
            linker: "/usr/bin/ld".into(),
            directory: "/d".into(),
            words: ["-o", "", "a b.o"].map(OsString::from).into(),
            objects: vec![2],
            has_lto: true,
            variables: vec![("A".into(), "1\n2".into())],
        };
        let bytes = record.to_bytes();
        assert_eq!(Record::from_bytes(&bytes), Some(record));
        for end in 0..bytes.len() {
            assert_eq!(Record::from_bytes(&bytes[..end]), None, "{end}");
        }
    }
}
