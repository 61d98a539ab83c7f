//! How a link is changed: space first, or objects in another order. Where a whole build is repeated, the wrapper of the
//! linker reads it from a file.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context as _, bail};
use hitm_binary::relocatable::{ObjectKind, Padding, padding_object, reorder_data};
use hitm_experiment::Lots;

use super::link_line::{is_start_file, reordered, with_padding};
use super::record::kind_of;

/// How a link is changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Edit {
    /// So much space before all variables.
    Pad(Padding),
    /// Another order, by this seed.
    Shuffle(u64),
}

impl Edit {
    /// What the wrapper finds; `None` if links are to be recorded.
    pub(super) fn read(path: &Path) -> anyhow::Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let edit = match words.as_slice() {
            ["pad", data, bss] => Self::Pad(Padding {
                data: data.parse()?,
                bss: bss.parse()?,
            }),
            ["shuffle", seed] => Self::Shuffle(seed.parse()?),
            _ => bail!("{} has {text:?}", path.display()),
        };
        Ok(Some(edit))
    }

    /// Tells the wrapper.
    pub(super) fn write(self, path: &Path) -> io::Result<()> {
        let text = match self {
            Self::Pad(padding) => format!("pad {} {}\n", padding.data, padding.bss),
            Self::Shuffle(seed) => format!("shuffle {seed}\n"),
        };
        fs::write(path, text)
    }
}

/// Places of the words that are objects of machine code.
pub(super) fn objects(words: &[OsString]) -> Vec<usize> {
    let is_object = |word: &OsString| {
        !is_start_file(word) && kind_of(Path::new(word)) == Some(ObjectKind::Native)
    };
    (0..words.len())
        .filter(|&at| is_object(&words[at]))
        .collect()
}

/// The words of a changed link. What they need is written into `folder`.
pub(super) fn edited(
    edit: Edit,
    words: &[OsString],
    objects: &[usize],
    folder: &Path,
) -> anyhow::Result<Vec<OsString>> {
    match edit {
        Edit::Pad(padding) => {
            let like = objects.first().map(|&at| read(Path::new(&words[at])));
            let object = padding_object(padding, like.transpose()?.as_deref());
            let path = folder.join("padding.o");
            write(&path, &object)?;
            Ok(with_padding(words, &path))
        }
        Edit::Shuffle(seed) => shuffled(seed, words, objects, folder),
    }
}

/// Objects change places with each other, and variables within each.
fn shuffled(
    seed: u64,
    words: &[OsString],
    objects: &[usize],
    folder: &Path,
) -> anyhow::Result<Vec<OsString>> {
    let mut lots = Lots::new(seed);
    let mut order = Vec::new();
    for &at in objects {
        let bytes = read(Path::new(&words[at]))?;
        let word = match reorder_data(&bytes, &mut |n| lots.below(n)) {
            Some(bytes) => {
                let path = folder.join(format!("{at}.o"));
                write(&path, &bytes)?;
                path.into()
            }
            None => words[at].clone(),
        };
        order.push(word);
    }
    lots.shuffle(&mut order);
    Ok(reordered(words, objects, &order))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes)
        .with_context(|| format!("cannot write {} (is there room?)", path.display()))
}
