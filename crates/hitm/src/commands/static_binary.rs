//! A binary that is looked at without running it.

use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context as _, bail};
use hitm_analysis::{BinarySource as _, add_debug_file};
use hitm_binary::BinaryError;
use hitm_binary::debug::Catalog;
use hitm_binary::image::{DebugLevel, Image};
use hitm_collect::machine::{SystemFiles, line_sizes};
use hitm_model::{Caveat, LineSize};

use crate::load::Files;

/// An image with its separate debug file, mapped until the process ends.
pub(crate) struct StaticBinary {
    path: String,
    image: Image<'static>,
    damage: Option<String>,
}

impl StaticBinary {
    /// Maps a binary and reads its headers.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let files = Files::seen_by(None);
        let shown = path.display().to_string();
        let bytes = files
            .bytes(&shown)
            .map_err(anyhow::Error::msg)
            .with_context(|| format!("cannot open {shown} (give a program or a shared library)"))?;
        let mut image = Image::parse_any_machine(bytes).map_err(|error| {
            let next = match is_archive(bytes) {
                true => "it is an archive of object files, in which nothing has its place yet: give what it is linked into",
                false => what_to_give(&error),
            };
            anyhow::Error::new(error).context(format!("cannot read {shown} ({next})"))
        })?;
        let damage = add_debug_file(&files, &shown, &mut image);
        Ok(Self {
            path: shown,
            image,
            damage,
        })
    }

    /// The same of a binary whose instructions are needed.
    pub(crate) fn open_with_code(path: &Path) -> anyhow::Result<Self> {
        let binary = Self::open(path)?;
        if binary.image.is_debug_file() {
            bail!(
                "{} is a separate debug file, without the instructions (give the program that it is of: it is found by itself)",
                binary.path
            );
        }
        Ok(binary)
    }

    pub(crate) fn image(&self) -> &Image<'static> {
        &self.image
    }

    /// Its types; `None` without debug information.
    pub(crate) fn catalog(&self) -> anyhow::Result<Option<Catalog<'_>>> {
        Catalog::new(&self.image).with_context(|| format!("cannot read {}", self.path))
    }

    /// What is wrong with its separate debug file.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Its file name.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// What a reader must know about what was read of it.
    pub(crate) fn caveats(&self, catalog: Option<&Catalog<'_>>) -> Vec<Caveat> {
        let (binary, rust) = (self.name().to_owned(), self.image.is_rust());
        let mut caveats = Vec::new();
        let level = self.image.debug_level();
        let split = catalog.is_some_and(Catalog::is_split)
            || (level != DebugLevel::Full && self.image.is_split());
        caveats.extend(match level {
            _ if split => Some(Caveat::SplitDebugInfo { binary }),
            DebugLevel::Full => None,
            DebugLevel::LinesOnly => Some(Caveat::LinesOnly { binary, rust }),
            DebugLevel::Symbols => Some(Caveat::NoDebugInfo { binary, rust }),
            DebugLevel::Stripped => Some(Caveat::Stripped { binary }),
        });
        let in_types = catalog
            .is_some_and(Catalog::is_damaged)
            .then(|| "a part of its debug information".to_owned());
        let damages = [
            self.image.damage().map(str::to_owned),
            self.damage.clone(),
            in_types,
        ];
        caveats.extend(
            damages
                .into_iter()
                .flatten()
                .map(|what| Caveat::BinaryDamaged {
                    path: self.path.clone(),
                    what,
                }),
        );
        caveats
    }
}

/// Whether it is a static library, as `ar` makes it.
fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n")
}

/// What to give instead of a file that cannot be read.
fn what_to_give(error: &BinaryError) -> &'static str {
    match error {
        BinaryError::NotLinked { .. } => "give what it is linked into, or the program that left it",
        BinaryError::Not64Bit => "build it for a 64-bit processor",
        BinaryError::BigEndian { .. } => "build it for a little-endian processor",
        BinaryError::Damaged { .. } => "build or copy it again",
        _ => "give a program or a shared library",
    }
}

/// The line size that is asked for, else this machine's.
pub(crate) fn line_size(given: Option<LineSize>) -> LineSize {
    given
        .or_else(|| line_sizes(&SystemFiles::of_this_machine()).coherence())
        .unwrap_or(LineSize::ASSUMED)
}

/// As many threads as there are processors to use.
pub(crate) fn jobs() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
