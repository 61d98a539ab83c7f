//! What the user names as progress: a variable, one of its fields, a function, or a line of source code.

use hitm_binary::image::{Symbol, SymbolKind};
use hitm_model::{Avma, AvmaRange, Bias, NamedCode, NamedProgress, SpaceId};

use crate::binaries::{DebugInfos, ModuleId};
use crate::samples::Decoder;
use crate::world::World;

/// Components of a variable that are looked at when one is searched by its path.
const MOST_COMPONENTS: usize = 100_000;

/// What a name means.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// A variable of a size that can be read at once.
    Word { address: Avma, size: u8 },
    /// Instructions.
    Code(NamedCode),
}

/// A binary that is mapped in a space, and where.
type Loaded = (ModuleId, Bias);

/// The binaries of a space, the program itself first.
pub(super) fn loaded(decoder: &mut Decoder<'_, '_>, world: &World, space: SpaceId) -> Vec<Loaded> {
    let Some(space) = world.spaces.get(&space) else {
        return Vec::new();
    };
    let mut found: Vec<Loaded> = Vec::new();
    for mapping in space.mappings().filter(|mapping| mapping.executable) {
        if let Some(loaded) = decoder.module_at(space, mapping.range.start)
            && !found.contains(&loaded)
        {
            found.push(loaded);
        }
    }
    let program = space.program.as_deref();
    found.sort_by_key(|(module, _)| program != Some(decoder.modules.get(*module).path.as_str()));
    found
}

/// What a name means in the first binary that knows it.
pub(super) fn meaning(
    named: &NamedProgress,
    loaded: &[Loaded],
    debug: &DebugInfos<'_, '_>,
) -> Option<Meaning> {
    loaded.iter().find_map(|&it| match named {
        NamedProgress::Symbol(name) => symbol(name, it, debug),
        NamedProgress::Line { file, line } => {
            let ranges = debug.get(it.0).code_of_line(file, *line);
            let ranges = ranges.into_iter();
            let ranges: Vec<AvmaRange> = ranges
                .map(|range| AvmaRange::new(it.1.to_avma(range.start), it.1.to_avma(range.end)))
                .collect();
            (!ranges.is_empty()).then(|| {
                Meaning::Code(NamedCode {
                    name: format!("{file}:{line}"),
                    ranges,
                })
            })
        }
    })
}

fn symbol(name: &str, (module, bias): Loaded, debug: &DebugInfos<'_, '_>) -> Option<Meaning> {
    let image = &debug.module(module).image;
    let all = image.symbols_called(name);
    if let Some(word) = all.iter().find(|it| it.kind == SymbolKind::Data) {
        return word_at(bias.to_avma(word.svma), word.size);
    }
    let functions: Vec<AvmaRange> = all
        .iter()
        .filter(|it| it.kind == SymbolKind::Function)
        .map(|it| {
            let start = bias.to_avma(it.svma);
            AvmaRange::new(start, start.wrapping_add(it.size))
        })
        .collect();
    if !functions.is_empty() {
        return Some(Meaning::Code(NamedCode {
            name: name.to_owned(),
            ranges: functions,
        }));
    }
    // The variable's own name may contain dots and brackets, too: of generics, of statics in functions.
    let borders = name.char_indices().filter(|(_, c)| matches!(c, '.' | '['));
    borders
        .filter_map(|(at, _)| {
            let (variable, path) = name.split_at(at);
            let symbols = image.symbols_called(variable);
            let data = symbols.iter().find(|it| it.kind == SymbolKind::Data)?;
            component(data, path, module, debug)
        })
        .find_map(|(svma, size)| word_at(bias.to_avma(svma), size))
}

/// Where the component of a variable with this path is.
fn component(
    variable: &Symbol,
    path: &str,
    module: ModuleId,
    debug: &DebugInfos<'_, '_>,
) -> Option<(hitm_model::Svma, u64)> {
    let info = debug.get(module);
    let ty = info.global_at(variable.svma)?.ty?;
    let mut offset = 0;
    for _ in 0..MOST_COMPONENTS {
        if offset >= variable.size {
            break;
        }
        let field = info.field_path(ty, offset, 1);
        if field.path == path {
            return Some((
                variable.svma.wrapping_add(field.leaf_offset),
                field.leaf_size,
            ));
        }
        offset = field
            .leaf_offset
            .saturating_add(field.leaf_size)
            .max(offset + 1);
    }
    None
}

fn word_at(address: Avma, size: u64) -> Option<Meaning> {
    let size = u8::try_from(size)
        .ok()
        .filter(|it| matches!(it, 1 | 2 | 4 | 8))?;
    Some(Meaning::Word { address, size })
}
