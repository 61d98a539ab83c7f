//! Which objects are on which lines.

use hitm_binary::debug::{DebugInfo, Global, Origin};
use hitm_binary::image::{Image, SectionInfo, Symbol, SymbolKind};
use hitm_model::{
    Avma, DataObject, Focus, LineMap, LineSize, MapLine, MapPart, MapSection, Svma, SvmaRange,
};

use crate::named::GUARD;

/// What a map shows.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// By which line size.
    pub line_size: LineSize,
    /// Whether also what cannot be written to.
    pub read_only: bool,
}

/// The lines that hold more than one object.
#[must_use]
pub fn line_map(image: &Image<'_>, debug: Option<&DebugInfo<'_>>, options: &MapOptions) -> LineMap {
    let sections: Vec<SectionInfo<'_>> = image
        .sections()
        .into_iter()
        .filter(|section| !section.executable && (section.writable || options.read_only))
        .collect();
    let objects = objects_in(image, &sections);
    let mut lines = parts_of(&objects, options.line_size);
    lines.retain(|line| line.parts.len() > 1);
    let describe = |object: &Placed<'_>| object.described(image, debug);
    let lines: Vec<MapLine> = lines
        .iter()
        .map(|line| line.shown(&objects, describe))
        .collect();
    LineMap {
        line_size: options.line_size,
        focus: None,
        sections: sections
            .iter()
            .map(|section| summary(section, &objects, &lines))
            .collect(),
        lines,
    }
}

/// The lines around a place and everything on them. Of a place on many lines those at its ends: those between are its
/// own.
#[must_use]
pub fn lines_around(
    image: &Image<'_>,
    debug: Option<&DebugInfo<'_>>,
    focus: Focus,
    options: &MapOptions,
) -> LineMap {
    let sections = image.sections();
    let range = SvmaRange::new(focus.address, focus.address.wrapping_add(focus.size.max(1)));
    let sections: Vec<SectionInfo<'_>> = sections
        .into_iter()
        .filter(|section| !section.executable)
        .collect();
    let objects = match focus.thread_local {
        true => thread_locals(image),
        false => objects_in(image, &sections),
    };
    let bytes = u64::from(options.line_size.bytes());
    let line_of = |at: Svma| at.0 / bytes * bytes;
    let wanted = [line_of(range.start), line_of(range.end.wrapping_sub(1))];
    let describe = |object: &Placed<'_>| object.described(image, debug);
    let lines: Vec<MapLine> = parts_of(&objects, options.line_size)
        .iter()
        .filter(|line| wanted.contains(&line.address.0))
        .map(|line| line.shown(&objects, describe))
        .collect();
    let touched = |section: &&SectionInfo<'_>| {
        section.range.start < range.end && range.start < section.range.end
    };
    LineMap {
        line_size: options.line_size,
        sections: sections
            .iter()
            .filter(touched)
            .map(|section| summary(section, &objects, &lines))
            .collect(),
        focus: Some(focus),
        lines,
    }
}

/// A symbol and the section it is in.
#[derive(Debug, Clone)]
pub(crate) struct Placed<'d> {
    pub(crate) symbol: Symbol,
    pub(crate) section: &'d str,
}

impl Placed<'_> {
    /// Its name as people write it, and as debug information would give it: `guard of f::x`, not `guard variable for
    /// f()::x`.
    pub(crate) fn name(&self) -> String {
        let name = self.symbol.name.replace("()::", "::");
        match name.strip_prefix("guard variable for ") {
            Some(guarded) => format!("{GUARD}{guarded}"),
            None => name,
        }
    }

    fn described(&self, image: &Image<'_>, debug: Option<&DebugInfo<'_>>) -> DataObject {
        let symbol = &self.symbol;
        let global = debug.and_then(|debug| match symbol.kind {
            SymbolKind::ThreadLocal => debug.thread_local_at(symbol.svma.0),
            _ => debug.global_at(symbol.svma),
        });
        let global =
            global.filter(|global| global.svma == symbol.svma && global.origin != Origin::Section);
        let type_of = |global: &Global| Some((global.ty?, debug?));
        let ty = global.as_ref().and_then(type_of);
        let section = match symbol.kind {
            SymbolKind::ThreadLocal => "thread-local",
            _ => image.section_at(symbol.svma).unwrap_or(self.section),
        };
        DataObject {
            name: match &global {
                Some(global) => global.name.clone(),
                None => self.name(),
            },
            linker_name: symbol.raw.clone(),
            address: symbol.svma,
            size: symbol.size,
            section: section.to_owned(),
            align: global
                .as_ref()
                .and_then(|global| global.align)
                .max(ty.map(|(ty, debug)| debug.type_align(ty))),
            type_name: ty.map(|(ty, debug)| debug.type_name(ty)),
            declared: global.as_ref().and_then(|global| global.declared.clone()),
            guard_of: global.and_then(|global| global.guard_of),
        }
    }
}

/// The variables in some sections, in address order.
pub(crate) fn objects_in<'d>(image: &Image<'d>, sections: &[SectionInfo<'d>]) -> Vec<Placed<'d>> {
    let symbols = image.symbols_of(SymbolKind::Data).into_iter();
    symbols
        .filter_map(|symbol| {
            let after = sections.partition_point(|section| section.range.start <= symbol.svma);
            let section = sections.get(after.checked_sub(1)?)?;
            section.range.contains(symbol.svma).then_some(Placed {
                symbol,
                section: section.name,
            })
        })
        .collect()
}

/// The variables of which each thread has one, in the order of their offsets.
pub(crate) fn thread_locals<'d>(image: &Image<'d>) -> Vec<Placed<'d>> {
    let symbols = image.symbols_of(SymbolKind::ThreadLocal).into_iter();
    symbols
        .map(|symbol| Placed {
            symbol,
            section: "thread-local",
        })
        .collect()
}

/// A line and the numbers of the objects on it, with their bytes of it.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) address: Svma,
    pub(crate) parts: Vec<(usize, hitm_model::ByteRange)>,
}

impl Line {
    fn shown(
        &self,
        objects: &[Placed<'_>],
        describe: impl Fn(&Placed<'_>) -> DataObject,
    ) -> MapLine {
        MapLine {
            address: self.address,
            parts: self
                .parts
                .iter()
                .map(|&(number, bytes)| MapPart {
                    object: describe(&objects[number]),
                    bytes,
                })
                .collect(),
        }
    }
}

/// The lines at the ends of objects, in address order: only there can an object meet another one.
pub(crate) fn parts_of(objects: &[Placed<'_>], line_size: LineSize) -> Vec<Line> {
    let bytes = u64::from(line_size.bytes());
    let mut parts: Vec<(u64, usize, hitm_model::ByteRange)> = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        let (start, size) = (object.symbol.svma.0, object.symbol.size.max(1));
        let last = start.saturating_add(size - 1);
        let (first_line, last_line) = (start / bytes * bytes, last / bytes * bytes);
        let mut add = |line: u64| {
            let from = start.max(line);
            let until = last.min(line.saturating_add(bytes - 1));
            let length = u32::try_from(until - from + 1).unwrap_or(line_size.bytes());
            let (_, range) = line_size.parts(Avma(from), length).next().unwrap_or((
                line_size.line_of(Avma(from)),
                hitm_model::ByteRange { start: 0, end: 0 },
            ));
            parts.push((line, number, range));
        };
        add(first_line);
        if last_line != first_line {
            add(last_line);
        }
    }
    parts.sort_by_key(|&(line, number, range)| (line, range.start, number));
    let mut lines: Vec<Line> = Vec::new();
    for (line, number, range) in parts {
        match lines.last_mut() {
            Some(last) if last.address.0 == line => last.parts.push((number, range)),
            _ => lines.push(Line {
                address: Svma(line),
                parts: vec![(number, range)],
            }),
        }
    }
    lines
}

fn summary(section: &SectionInfo<'_>, objects: &[Placed<'_>], lines: &[MapLine]) -> MapSection {
    let inside = |at: Svma| section.range.contains(at);
    let shares = |line: &&MapLine| {
        line.parts.len() > 1 && line.parts.iter().any(|part| inside(part.object.address))
    };
    MapSection {
        name: section.name.to_owned(),
        address: section.range.start,
        size: section.range.len(),
        align: section.align,
        writable: section.writable,
        objects: objects
            .iter()
            .filter(|object| inside(object.symbol.svma))
            .count() as u64,
        shared_lines: lines.iter().filter(shares).count() as u64,
    }
}
