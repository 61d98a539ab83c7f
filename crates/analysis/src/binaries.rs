//! The binaries of a recording: who gives their bytes, and what was read from them.

use std::cell::OnceCell;

use hitm_binary::BinaryError;
use hitm_binary::debug::DebugInfo;
use hitm_binary::image::{DebugLevel, Image};
use hitm_model::{BuildId, Caveat, SourceFrame, Svma};
use rustc_hash::FxHashMap;

/// Gives the bytes of the files that a recording names. The analysis itself opens nothing.
pub trait BinarySource<'d> {
    /// The bytes of the file at `path`, as the recorded process saw it.
    ///
    /// # Errors
    /// Why it cannot be had, as a fragment.
    fn bytes(&self, path: &str) -> Result<&'d [u8], String>;

    /// The bytes of a separate debug file for `image`, if there is one.
    fn debug_bytes(&self, path: &str, image: &Image<'d>) -> Option<&'d [u8]>;
}

/// Adds its separate debug file to the image of the file at `path`, if there is one that fits. Returns what is wrong with
/// one that does not.
pub fn add_debug_file<'d>(
    source: &dyn BinarySource<'d>,
    path: &str,
    image: &mut Image<'d>,
) -> Option<String> {
    let separate = source.debug_bytes(path, image)?;
    let error = image.add_debug(separate).err()?;
    Some(format!("separate debug file: {error}"))
}

/// One binary.
#[derive(Debug)]
pub(crate) struct Module<'d> {
    pub(crate) path: String,
    pub(crate) image: Image<'d>,
}

impl Module<'_> {
    /// Its file name.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A binary by its place in [`Modules`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ModuleId(pub(crate) u32);

/// The binaries that were asked for.
pub(crate) struct Modules<'d, 's> {
    source: &'s dyn BinarySource<'d>,
    modules: Vec<Module<'d>>,
    by_path: FxHashMap<(String, Option<BuildId>), Option<ModuleId>>,
    caveats: Vec<Caveat>,
}

impl<'d, 's> Modules<'d, 's> {
    pub(crate) fn new(source: &'s dyn BinarySource<'d>) -> Self {
        Self {
            source,
            modules: Vec::new(),
            by_path: FxHashMap::default(),
            caveats: Vec::new(),
        }
    }

    /// The binary that was mapped from `path`; `None`, and a caveat, if it cannot be used.
    pub(crate) fn find(&mut self, path: &str, build_id: Option<&BuildId>) -> Option<ModuleId> {
        let key = (path.to_owned(), build_id.cloned());
        if let Some(known) = self.by_path.get(&key) {
            return *known;
        }
        let loaded = self.load(path, build_id);
        self.by_path.insert(key, loaded);
        loaded
    }

    fn load(&mut self, path: &str, build_id: Option<&BuildId>) -> Option<ModuleId> {
        if path.starts_with("/dev/") || path.starts_with("/memfd:") || path.starts_with("/SYSV") {
            return None;
        }
        let path = path.strip_suffix(" (deleted)").unwrap_or(path);
        let bytes = match self.source.bytes(path) {
            Ok(bytes) => bytes,
            Err(why) => {
                self.caveats.push(Caveat::BinaryUnreadable {
                    path: path.to_owned(),
                    why,
                });
                return None;
            }
        };
        let mut image = match Image::parse(bytes) {
            Ok(image) => image,
            Err(error) => {
                self.caveats.extend(parse_caveat(path, &error));
                return None;
            }
        };
        if build_id.is_some() && image.identity().as_ref() != build_id {
            self.caveats.push(Caveat::BuildIdDiffers {
                path: path.to_owned(),
            });
            return None;
        }
        let damaged = |what: String| Caveat::BinaryDamaged {
            path: path.to_owned(),
            what,
        };
        self.caveats
            .extend(image.damage().map(|what| damaged(what.to_owned())));
        let of_separate = add_debug_file(self.source, path, &mut image);
        self.caveats.extend(of_separate.map(damaged));
        let id = ModuleId(u32::try_from(self.modules.len()).ok()?);
        self.modules.push(Module {
            path: path.to_owned(),
            image,
        });
        Some(id)
    }

    pub(crate) fn get(&self, id: ModuleId) -> &Module<'d> {
        &self.modules[id.0 as usize]
    }

    /// What was wrong with binaries so far.
    pub(crate) fn caveats(&self) -> &[Caveat] {
        &self.caveats
    }
}

/// Data files are mapped too; only what claims to be a binary is worth a word.
fn parse_caveat(path: &str, error: &BinaryError) -> Option<Caveat> {
    let path = path.to_owned();
    match error {
        BinaryError::NotElf | BinaryError::NotLinked { .. } => None,
        BinaryError::Not64Bit
        | BinaryError::BigEndian { .. }
        | BinaryError::ForeignMachine { .. } => Some(Caveat::ForeignArchitecture {
            path,
            what: error.to_string(),
        }),
        _ => Some(Caveat::BinaryUnreadable {
            path,
            why: error.to_string(),
        }),
    }
}

/// Debug information of the binaries, loaded when first asked for.
pub(crate) struct DebugInfos<'m, 'd> {
    modules: &'m [Module<'d>],
    infos: Vec<OnceCell<Loaded<'m>>>,
}

struct Loaded<'m> {
    info: DebugInfo<'m>,
    damage: Option<String>,
}

impl<'m, 'd> DebugInfos<'m, 'd> {
    pub(crate) fn new(modules: &'m Modules<'d, '_>) -> Self {
        let infos = modules.modules.iter().map(|_| OnceCell::new()).collect();
        Self {
            modules: &modules.modules,
            infos,
        }
    }

    pub(crate) fn module(&self, id: ModuleId) -> &'m Module<'d> {
        &self.modules[id.0 as usize]
    }

    /// The debug information of a binary; where it cannot be read, the symbols answer.
    pub(crate) fn get(&self, id: ModuleId) -> &DebugInfo<'m> {
        &self.loaded(id).info
    }

    /// The function at an instruction and those it is inlined into, innermost first; the symbol where nothing more is
    /// known.
    pub(crate) fn frames(&self, id: ModuleId, at: Svma) -> Vec<SourceFrame> {
        let frames = self.get(id).source_frames(at);
        if !frames.is_empty() {
            return frames;
        }
        let symbol = self.module(id).image.symbol_at(at);
        let frame = symbol.map(|symbol| SourceFrame {
            function: symbol.name,
            line: None,
        });
        frame.into_iter().collect()
    }

    fn loaded(&self, id: ModuleId) -> &Loaded<'m> {
        let image = &self.modules[id.0 as usize].image;
        self.infos[id.0 as usize].get_or_init(|| match DebugInfo::load(image) {
            Ok(info) => Loaded {
                damage: info
                    .is_damaged()
                    .then(|| "a part of its debug information".to_owned()),
                info,
            },
            Err(error) => Loaded {
                info: DebugInfo::symbols_only(image),
                damage: Some(error.to_string()),
            },
        })
    }

    /// What a reader must know about a binary whose names were needed.
    pub(crate) fn caveats(&self, id: ModuleId) -> impl Iterator<Item = Caveat> + use<> {
        let module = self.module(id);
        let (binary, rust) = (module.name().to_owned(), module.image.is_rust());
        let missing = match module.image.debug_level() {
            DebugLevel::Full => None,
            DebugLevel::LinesOnly => Some(Caveat::LinesOnly { binary, rust }),
            DebugLevel::Symbols => Some(Caveat::NoDebugInfo { binary, rust }),
            DebugLevel::Stripped => Some(Caveat::Stripped { binary }),
        };
        let damaged = self.loaded(id).damage.clone();
        missing
            .into_iter()
            .chain(damaged.map(|what| Caveat::BinaryDamaged {
                path: module.path.clone(),
                what,
            }))
    }
}
