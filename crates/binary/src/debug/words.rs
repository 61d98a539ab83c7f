//! Types that hold atomics or locks: what several threads may change without waiting for each other.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};

use hitm_model::SourceLine;

use super::types::{Shape, Type};
use super::units::{DieId, Language};
use super::{DebugInfo, TypeId};

/// So many records deep words are looked for.
const DEEPEST: usize = 8;
/// So many words of one type are listed.
const MOST_WORDS: usize = 64;

/// What kind of word it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WordKind {
    /// An atomic number, flag or pointer.
    Atomic,
    /// A lock: a mutex, a spin lock, a condition variable.
    Lock,
}

/// An atomic or a lock in a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedWord {
    /// The way to it: `.head`, `.lanes[0].hits`.
    pub path: String,
    /// Where it is in the type.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub kind: WordKind,
    /// In an array: the distance and the number of elements.
    pub repeated: Option<(u64, u64)>,
}

/// A structure of the program's own with atomics or locks in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedType {
    /// The type.
    pub ty: TypeId,
    /// Its name.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// What its address is a multiple of, where the debug information tells.
    pub align: Option<u64>,
    /// Its words, by offset.
    pub words: Vec<SharedWord>,
    /// The name of a member that is there as padding.
    pub padding: Option<String>,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
}

/// A vector, or another list in one block, of something small with atomics or locks in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedArray {
    /// The list's name.
    pub name: String,
    /// The element's type.
    pub element: TypeId,
    /// The element's name.
    pub element_name: String,
    /// Bytes of one element.
    pub size: u64,
    /// The words of one element.
    pub words: Vec<SharedWord>,
    /// Where the element's type is declared.
    pub declared: Option<SourceLine>,
}

type Words = Rc<[SharedWord]>;

impl DebugInfo<'_> {
    /// The atomics and locks in a type.
    #[must_use]
    pub fn words_of(&self, ty: TypeId) -> Vec<SharedWord> {
        self.words(ty.0, DEEPEST, &mut FxHashMap::default())
            .to_vec()
    }

    /// All structures of the program's own that hold atomics or locks, by name, and the lists of small ones.
    #[must_use]
    pub fn shared_types(&self) -> (Vec<SharedType>, Vec<SharedArray>) {
        let mut known = FxHashMap::default();
        let mut seen = FxHashSet::default();
        let mut types = Vec::new();
        let mut arrays = Vec::new();
        for &id in &self.index().records {
            let Some(ty) = self.ty(id) else { continue };
            let Shape::Record(record) = &ty.shape else {
                continue;
            };
            if let Some(array) = self.array(&ty, record.parameters.first().copied(), &mut known) {
                if seen.insert(("[]", array.element_name.clone(), array.size)) {
                    arrays.push(array);
                }
                continue;
            }
            if record.union {
                continue;
            }
            let words = self.words(id, DEEPEST, &mut known);
            if words.is_empty() || self.is_standard(id, &ty) {
                continue;
            }
            let name = self.type_name(TypeId(id));
            let size = self.size_of(id).unwrap_or(0);
            if !seen.insert(("", name.clone(), size)) {
                continue;
            }
            let padding = record
                .members
                .iter()
                .filter_map(|member| member.name.as_deref());
            types.push(SharedType {
                ty: TypeId(id),
                size,
                align: Some(self.type_align(TypeId(id))),
                padding: padding
                    .into_iter()
                    .find(|name| is_padding(name))
                    .map(str::to_owned),
                words: words.to_vec(),
                declared: self.declaration(TypeId(id)),
                name,
            });
        }
        types.sort_by(|a, b| (&a.name, a.size).cmp(&(&b.name, b.size)));
        arrays.sort_by(|a, b| (&a.element_name, a.size).cmp(&(&b.element_name, b.size)));
        (types, arrays)
    }

    /// The structure of a name, qualified or not; the first by name where several have it.
    #[must_use]
    pub fn type_named(&self, name: &str) -> Option<TypeId> {
        let last = name.rsplit("::").next().unwrap_or(name);
        let plain = last.split('<').next().unwrap_or(last);
        let mut found: Vec<(String, DieId)> = Vec::new();
        for &id in &self.index().records {
            let own = self
                .units
                .die(id)
                .and_then(|die| Some(die.name()?.into_owned()));
            if own.is_none_or(|own| !own.starts_with(plain)) {
                continue;
            }
            let full = self.type_name(TypeId(id));
            let tail = |full: &str| {
                full.strip_suffix(name)
                    .is_some_and(|before| before.ends_with("::"))
            };
            if full == name || tail(&full) {
                found.push((full, id));
            }
        }
        found.sort();
        found.first().map(|(_, id)| TypeId(*id))
    }

    /// Offset and size of a member.
    #[must_use]
    pub fn member_named(&self, ty: TypeId, name: &str) -> Option<(u64, u64)> {
        let ty = self.ty(self.bare(ty.0)?)?;
        let Shape::Record(record) = &ty.shape else {
            return None;
        };
        let found = record
            .all_members()
            .find(|member| member.name.as_deref() == Some(name))?;
        Some((found.offset, self.size_of(found.ty).unwrap_or(0)))
    }

    /// Reads now what questions about variables and types need.
    pub fn prepare(&self) {
        let _ = self.index();
    }

    fn array(
        &self,
        ty: &Type,
        element: Option<DieId>,
        known: &mut FxHashMap<DieId, Words>,
    ) -> Option<SharedArray> {
        let name = ty.name.as_deref()?;
        let is_list = match ty.language {
            Language::Rust => name.starts_with("Vec<"),
            _ => name.starts_with("vector<") || name.starts_with("deque<"),
        };
        let element = element.filter(|_| is_list)?;
        let words = self.words(element, DEEPEST, known);
        if words.is_empty() {
            return None;
        }
        Some(SharedArray {
            name: name.to_owned(),
            element: TypeId(element),
            element_name: self.type_name(TypeId(element)),
            size: self.size_of(element)?,
            words: words.to_vec(),
            declared: self.declaration(TypeId(element)),
        })
    }

    fn words(&self, id: DieId, depth: usize, known: &mut FxHashMap<DieId, Words>) -> Words {
        let none = || Rc::from(Vec::new());
        if let Some(words) = known.get(&id) {
            return Rc::clone(words);
        }
        let Some(depth) = depth.checked_sub(1) else {
            return none();
        };
        // A type that holds itself is damage.
        known.insert(id, none());
        let words: Words = self.words_in(id, depth, known).into();
        known.insert(id, Rc::clone(&words));
        words
    }

    fn words_in(
        &self,
        id: DieId,
        depth: usize,
        known: &mut FxHashMap<DieId, Words>,
    ) -> Vec<SharedWord> {
        let Some(ty) = self.ty(id) else {
            return Vec::new();
        };
        if let Some(kind) = self.kind_of(id, &ty)
            && let Some(size) = self.size_of(id)
            // A lock that is empty guards nothing.
            && size > 0
        {
            return vec![SharedWord {
                path: String::new(),
                offset: 0,
                size,
                kind,
                repeated: None,
            }];
        }
        match &ty.shape {
            Shape::Alias(_, Some(target)) => self.words(*target, depth, known).to_vec(),
            Shape::Array {
                element,
                dimensions,
            } => {
                let count = dimensions
                    .iter()
                    .try_fold(1u64, |all, count| all.checked_mul((*count)?));
                let (Some(count @ 1..), Some(stride)) = (count, self.size_of(*element)) else {
                    return Vec::new();
                };
                let words = self.words(*element, depth, known);
                let repeated = words.iter().map(|word| SharedWord {
                    path: format!("[]{}", word.path),
                    repeated: Some((stride, count)),
                    ..word.clone()
                });
                repeated.collect()
            }
            Shape::Record(record) if !record.union => {
                let mut words = Vec::new();
                // Of an enumeration only one variant is there at a time.
                for member in record.members.iter().filter(|member| member.bits.is_none()) {
                    for word in self.words(member.ty, depth, known).iter() {
                        if words.len() >= MOST_WORDS {
                            return words;
                        }
                        let name = member.name.as_deref().filter(|_| !member.base_class);
                        let path = match name {
                            // The field of a wrapper says nothing: `.received.0` is `.received`.
                            Some(name) if name.starts_with("__") && word.path.starts_with('.') => {
                                word.path.clone()
                            }
                            Some(name) => {
                                format!(".{}{}", name.trim_start_matches("__"), word.path)
                            }
                            None => word.path.clone(),
                        };
                        words.push(SharedWord {
                            path,
                            offset: member.offset.saturating_add(word.offset),
                            ..word.clone()
                        });
                    }
                }
                words.sort_by_key(|word| word.offset);
                words
            }
            _ => Vec::new(),
        }
    }

    /// Whether a type is an atomic or a lock by its name.
    fn kind_of(&self, id: DieId, ty: &Type) -> Option<WordKind> {
        if matches!(ty.shape, Shape::Alias(gimli::DW_TAG_atomic_type, _)) {
            return Some(WordKind::Atomic);
        }
        let name = ty.name.as_deref()?;
        match (ty.language, &ty.shape) {
            (Language::Rust, Shape::Record(_)) => rust_kind(name, || self.is_standard(id, ty)),
            (Language::Rust, _) => None,
            (_, Shape::Alias(gimli::DW_TAG_typedef, _)) => c_kind(name),
            (_, Shape::Record(_)) => {
                cpp_kind(name, || self.is_standard(id, ty)).or_else(|| c_kind(name))
            }
            _ => None,
        }
    }
}

fn is_padding(name: &str) -> bool {
    let name = name.trim_matches('_').to_ascii_lowercase();
    name.starts_with("pad") || name.starts_with("unused") || name.starts_with("reserved")
}

fn rust_kind(name: &str, standard: impl Fn() -> bool) -> Option<WordKind> {
    let plain = name.split('<').next().unwrap_or(name);
    match plain {
        "Atomic" | "AtomicBool" | "AtomicPtr" if standard() => Some(WordKind::Atomic),
        "Mutex" | "RwLock" | "Condvar" | "Once" | "OnceLock" | "Barrier" => Some(WordKind::Lock),
        _ if plain.starts_with("Atomic")
            && plain[6..].starts_with(['U', 'I', 'u', 'i'])
            && standard() =>
        {
            Some(WordKind::Atomic)
        }
        _ => None,
    }
}

fn cpp_kind(name: &str, standard: impl Fn() -> bool) -> Option<WordKind> {
    let plain = name.split('<').next().unwrap_or(name);
    let kind = match plain {
        "atomic" | "__atomic_base" | "__atomic_float" | "atomic_flag" => WordKind::Atomic,
        "mutex" | "recursive_mutex" | "timed_mutex" | "shared_mutex" | "shared_timed_mutex"
        | "condition_variable" => WordKind::Lock,
        _ => return None,
    };
    standard().then_some(kind)
}

fn c_kind(name: &str) -> Option<WordKind> {
    match name {
        "pthread_mutex_t" | "pthread_spinlock_t" | "pthread_rwlock_t" | "pthread_cond_t"
        | "sem_t" | "mtx_t" | "cnd_t" | "spinlock_t" | "spinlock" | "SpinLock" | "Spinlock" => {
            Some(WordKind::Lock)
        }
        "atomic_flag" | "atomic_t" | "atomic64_t" => Some(WordKind::Atomic),
        _ => None,
    }
}
