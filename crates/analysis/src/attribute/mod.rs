//! From an address to the variable and the field it belongs to.
//!
//! One file per kind of storage. Each looks only where its kind of evidence is exact; what none of them knows keeps its
//! address, and says so.

mod global;
mod heap;
mod stack;
mod thread_local;

use hitm_binary::debug::{ArrayStep, DebugInfo, FieldPath, TypeId};
use hitm_model::{Avma, AvmaRange, Bias, Caveat, Object, ObjectKind, SpaceId};
use rustc_hash::FxHashMap;

use crate::binaries::{DebugInfos, ModuleId, Modules};
use crate::gather::{Exemplar, LineKey, Place};
use crate::lines::{LineFinding, Part};
use crate::samples::SiteKey;
use crate::world::{Space, World};

/// What the bytes of a participant are.
#[derive(Clone, Debug)]
pub(crate) struct Attribution {
    /// What is the same for this object in every run and on each of its lines.
    pub(crate) identity: String,
    pub(crate) object: Object,
    pub(crate) field_path: String,
    pub(crate) field_type: Option<String>,
    /// The arrays on the way to the field, outermost first.
    pub(crate) elements: Vec<Element>,
    /// Whether it is a number or a library's type by itself, in no structure of the program's own.
    pub(crate) bare: bool,
    /// Whether it is a Rust binary's.
    pub(crate) rust: bool,
}

impl Attribution {
    /// An object of which nothing is known but where it is and what to call it.
    fn named_only(kind: ObjectKind, identity: String, name: String, address: Avma) -> Self {
        Self {
            identity,
            field_path: name.clone(),
            object: Object {
                kind,
                name,
                type_name: None,
                binary: None,
                section: None,
                address,
                size: None,
                declared: None,
                inferred: None,
            },
            field_type: None,
            elements: Vec::new(),
            bare: true,
            rust: false,
        }
    }
}

/// An element of an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Element {
    /// The path of the array.
    pub(crate) array: String,
    pub(crate) index: u64,
    pub(crate) size: u64,
    /// How many elements there are, if the type tells.
    pub(crate) count: Option<u64>,
}

/// Where the binaries with data on the lines of findings are.
pub(crate) type Homes = FxHashMap<LineKey, (ModuleId, Bias)>;

/// Finds the binary that a line belongs to, if it belongs to one.
pub(crate) fn home(
    modules: &mut Modules<'_, '_>,
    world: &World,
    (space, line): LineKey,
) -> Option<(ModuleId, Bias)> {
    let space = world.spaces.get(&space)?;
    let mapping = space.at(line.0)?;
    // The pages of .bss behind a file's last page are anonymous: ask the nearest file mapping before them.
    let (path, build_id) = space
        .mappings()
        .take_while(|candidate| candidate.range.start <= mapping.range.start)
        .filter_map(|candidate| candidate.file())
        .last()?;
    let module = modules.find(path, build_id)?;
    let image = &modules.get(module).image;
    let bias = image.bias_of_mappings(space.of_file(path))?;
    image
        .data_range()
        .contains(bias.to_svma(line.0))
        .then_some((module, bias))
}

/// The code that is mapped in a space.
#[derive(Debug, Default)]
pub(crate) struct CodeMap {
    /// The program's own binary.
    pub(crate) main: Option<ModuleId>,
    code: Vec<(AvmaRange, ModuleId, Bias)>,
}

impl CodeMap {
    /// Reads what is executable in a space.
    pub(crate) fn of(modules: &mut Modules<'_, '_>, space: &Space) -> Self {
        let mut map = Self::default();
        for mapping in space.mappings().filter(|mapping| mapping.executable) {
            let Some((path, build_id)) = mapping.file() else {
                continue;
            };
            if let Some(module) = modules.find(path, build_id)
                && let Some(bias) = modules
                    .get(module)
                    .image
                    .bias_of_mappings(space.of_file(path))
            {
                map.code.push((mapping.range, module, bias));
                if space.program.as_deref() == Some(path) {
                    map.main = Some(module);
                }
            }
        }
        map
    }
}

/// Answers what addresses are.
pub(crate) struct Attributor<'a, 'm, 'd> {
    pub(crate) world: &'a World,
    pub(crate) debug: &'a DebugInfos<'m, 'd>,
    pub(crate) sites: &'a [SiteKey],
    pub(crate) exemplars: &'a FxHashMap<Place, Exemplar>,
    pub(crate) homes: &'a Homes,
    pub(crate) code: &'a FxHashMap<SpaceId, CodeMap>,
    /// What could not be told, and why.
    pub(crate) caveats: Vec<Caveat>,
}

impl Attributor<'_, '_, '_> {
    /// What each participant of a line touches, in the order of the parts.
    pub(crate) fn line(&mut self, line: &LineFinding) -> Vec<Attribution> {
        let known: Vec<Option<Attribution>> = line
            .parts
            .iter()
            .map(|part| self.without_types(line, part))
            .collect();
        let mut heap = heap::attribute(self, line, &known).into_iter();
        known
            .into_iter()
            .map(|known| match known {
                Some(known) => known,
                None => heap.next().unwrap_or_else(|| Self::unknown(line.key.1.0)),
            })
            .collect()
    }

    /// By the storage's own evidence: symbols, stacks and thread-control blocks.
    fn without_types(&mut self, line: &LineFinding, part: &Part) -> Option<Attribution> {
        let address = part_address(line, part);
        if let Some(&(module, bias)) = self.homes.get(&line.key) {
            return Some(global::attribute(self, module, bias, address, part));
        }
        // A thread's control block and its thread-locals lie in the mapping of its stack.
        thread_local::attribute(self, line.key.0, address, part)
            .or_else(|| stack::attribute(self, line.key.0, address, part))
    }

    /// The binary whose code is at an address.
    fn code_at(&self, space: SpaceId, ip: Avma) -> Option<(ModuleId, Bias)> {
        let map = self.code.get(&space)?;
        let (_, module, bias) = map.code.iter().find(|(range, ..)| range.contains(ip))?;
        Some((*module, *bias))
    }

    /// The program's own binary.
    fn main_module(&self, space: SpaceId) -> Option<ModuleId> {
        self.code.get(&space)?.main
    }

    fn unknown(address: Avma) -> Attribution {
        let name = format!("memory at {address}");
        Attribution::named_only(ObjectKind::Unknown, name.clone(), name, address)
    }

    /// Exemplars of a participant, those of the instructions with most samples first.
    fn exemplars_of<'s>(
        &'s self,
        line: &'s LineFinding,
        part: &'s Part,
    ) -> impl Iterator<Item = &'s Exemplar> {
        part.sites.iter().filter_map(move |(site, ..)| {
            self.exemplars
                .get(&(line.key, part.thread, part.range, *site))
        })
    }
}

/// The address of a participant's first byte.
fn part_address(line: &LineFinding, part: &Part) -> Avma {
    line.key.1.0.wrapping_add(u64::from(part.range.start))
}

/// The path through a type, with what advice needs to know of it.
struct Path {
    text: String,
    leaf_type: Option<String>,
    arrays: Vec<ArrayStep>,
}

impl Path {
    /// The arrays on the way, with their paths from `root` on.
    fn elements(&self, root: &str) -> Vec<Element> {
        let mut at = 0;
        let steps = self.arrays.iter().filter_map(|step| {
            let index = format!("[{}]", step.index);
            let found = at + self.text[at..].find(&index)?;
            at = found + index.len();
            Some(Element {
                array: format!("{root}{}", &self.text[..found]),
                index: step.index,
                size: step.element_size,
                count: step.count,
            })
        });
        steps.collect()
    }
}

fn path(debug: &DebugInfo<'_>, ty: TypeId, offset: u64, size: u64) -> Path {
    let FieldPath {
        path,
        leaf_type,
        arrays,
        ..
    } = debug.field_path(ty, offset, size);
    Path {
        text: path,
        leaf_type: Some(leaf_type).filter(|name| !name.is_empty()),
        arrays,
    }
}
