//! The types of the JSON document of a layout, and how they are made. Their documentation becomes the schema's.

use hitm_model as model;
use schemars::JsonSchema;
use serde::Serialize;

use super::LAYOUT_JSON_VERSION;
use crate::json::{Caveat, Hex, Source};

/// What hitm read in one binary about its layout.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hitm-layout")]
pub(super) struct Document {
    /// What kind of document this is.
    schema: SchemaName,
    /// The version of the document's format.
    #[schemars(extend("const" = LAYOUT_JSON_VERSION))]
    version: u32,
    /// The version of the hitm that made it.
    hitm: &'static str,
    /// The file.
    binary: String,
    /// The processor that it is for.
    machine: String,
    /// The line size that was asked for, in bytes.
    line_size_bytes: u32,
    /// Lines: one map for each place that was asked for, or one of all lines that hold more than one object.
    maps: Vec<Map>,
    /// Types.
    types: Vec<Type>,
    /// What limits all of it.
    caveats: Vec<Caveat>,
}

/// The name of this kind of document.
#[derive(Serialize, JsonSchema)]
enum SchemaName {
    #[serde(rename = "hitm-layout")]
    HitmLayout,
}

/// Lines and the objects on them.
#[derive(Serialize, JsonSchema)]
struct Map {
    /// The place that was asked for; null for all of the data.
    focus: Option<Focus>,
    /// The sections that were looked at, in address order.
    sections: Vec<Section>,
    /// The lines, in address order.
    lines: Vec<Line>,
}

/// A place that was asked for.
#[derive(Serialize, JsonSchema)]
struct Focus {
    /// As it is called.
    name: String,
    /// Where it is in the file's addresses; of a thread-local, its offset in each thread's block.
    address: Hex,
    /// Its size in bytes; 0 for an address.
    size_bytes: u64,
    /// The name of its type; null if unknown.
    #[serde(rename = "type")]
    type_name: Option<String>,
    /// How many lines it is on. Those at its ends are listed.
    lines: u64,
    /// Whether each thread has its own.
    thread_local: bool,
}

/// A section of data.
#[derive(Serialize, JsonSchema)]
struct Section {
    /// Its name.
    name: String,
    /// Where it starts.
    address: Hex,
    /// Its size in bytes.
    size_bytes: u64,
    /// Its alignment in bytes.
    align_bytes: u64,
    /// Whether the program may write to it once it runs.
    writable: bool,
    /// Objects in it.
    objects: u64,
    /// Listed lines in it that hold more than one object.
    shared_lines: u64,
}

/// One line.
#[derive(Serialize, JsonSchema)]
struct Line {
    /// Its first byte.
    address: Hex,
    /// What is on it, in address order.
    parts: Vec<Part>,
}

/// An object's part of a line.
#[derive(Serialize, JsonSchema)]
struct Part {
    /// Offset of its first byte in the line.
    start: u32,
    /// Offset of the first byte behind.
    end: u32,
    /// The object.
    object: Object,
}

/// A variable with an address of its own.
#[derive(Serialize, JsonSchema)]
struct Object {
    /// Its name.
    name: String,
    /// The linker's name for it.
    linker_name: String,
    /// Where it starts.
    address: Hex,
    /// Its size in bytes.
    size_bytes: u64,
    /// Its section.
    section: String,
    /// The alignment that its type asks for, in bytes; null if unknown.
    align_bytes: Option<u64>,
    /// The largest power of two that its address is a multiple of, up to 4096.
    address_align_bytes: u64,
    /// The name of its type; null if unknown.
    #[serde(rename = "type")]
    type_name: Option<String>,
    /// Where it is declared; null if unknown.
    declared: Option<Source>,
    /// The variable whose initialisation it guards; null for other variables.
    guard_of: Option<String>,
}

/// A type.
#[derive(Serialize, JsonSchema)]
struct Type {
    /// Its name with namespaces.
    name: String,
    /// What it is: `struct`, `class`, `union`, `enum`, `array` or `type`.
    kind: &'static str,
    /// Its size in bytes.
    size_bytes: u64,
    /// Its alignment in bytes.
    align_bytes: u64,
    /// Whether the debug information states the alignment; else it follows from the members.
    align_stated: bool,
    /// Where it is declared; null if unknown.
    declared: Option<Source>,
    /// Its members and its padding, by offset.
    rows: Vec<Row>,
    /// Of an enumeration with data: its variants, whose rows share their bytes.
    variants: Vec<Variant>,
    /// Bytes that nothing uses.
    padding_bytes: u64,
    /// Stretches of such bytes.
    holes: u64,
    /// Of `padding_bytes`, those at the end.
    tail_padding_bytes: u64,
    /// How an instance lies on lines.
    placements: Vec<Placement>,
    /// How elements of an array of it do.
    arrays: Vec<Array>,
    /// The field that was asked for; null for all of it.
    focus: Option<Field>,
}

/// A field that was asked for.
#[derive(Serialize, JsonSchema)]
struct Field {
    /// Its path.
    name: String,
    /// Bytes from the start of the type.
    offset_bytes: u64,
    /// Its size in bytes; null if unknown.
    size_bytes: Option<u64>,
}

/// A member, or bytes that nothing uses.
#[derive(Serialize, JsonSchema)]
struct Row {
    /// What it is.
    role: Role,
    /// Its name; null where it has none.
    name: Option<String>,
    /// The name of its type; null for padding.
    #[serde(rename = "type")]
    type_name: Option<String>,
    /// Bytes from the start of the type.
    offset_bytes: u64,
    /// Its size in bytes, of a bit field that of its type; null for an array of any length.
    size_bytes: Option<u64>,
    /// Its bits, counted from the start of the type; null where it is whole bytes.
    bits: Option<Bits>,
}

/// Bits of a type.
#[derive(Serialize, JsonSchema)]
struct Bits {
    /// The first one.
    first: u64,
    /// How many.
    count: u64,
}

/// What a row is.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Role {
    Field,
    Base,
    Discriminant,
    Niche,
    Padding,
}

/// A variant of an enumeration with data.
#[derive(Serialize, JsonSchema)]
struct Variant {
    /// Its name.
    name: String,
    /// The discriminant that means it, as a decimal number; null where all others do.
    value: Option<String>,
    /// Its fields.
    rows: Vec<Row>,
}

/// How one instance lies on lines.
#[derive(Serialize, JsonSchema)]
struct Placement {
    /// By which line size, in bytes.
    line_size_bytes: u32,
    /// Where on its first line it begins.
    base: u32,
    /// Whether this is the base that puts it on most lines.
    worst: bool,
    /// The lines it is on.
    lines: u64,
    /// The offsets in it at which a further line begins, at most 64 of them.
    borders: Vec<u64>,
}

/// Which elements of an array share a line.
#[derive(Serialize, JsonSchema)]
struct Array {
    /// By which line size, in bytes.
    line_size_bytes: u32,
    /// After so many elements it begins anew.
    period_elements: u64,
    /// The lines that these are on.
    period_lines: u64,
    /// The elements on each of these lines where the first begins a line, at most 8 lines.
    on_lines: Vec<Elements>,
    /// Of a period, the elements that are on one line more than they need.
    straddling: u64,
    /// Whether elements share a line where the first begins a line.
    shared: bool,
    /// Whether they do where it begins as unluckily as its alignment allows.
    shared_at_worst: bool,
}

/// Elements of an array, by index.
#[derive(Serialize, JsonSchema)]
struct Elements {
    /// The first one.
    first: u64,
    /// The last one.
    last: u64,
}

fn all<'a, From, To: std::convert::From<&'a From>>(from: &'a [From]) -> Vec<To> {
    from.iter().map(To::from).collect()
}

impl From<&model::LayoutReport> for Document {
    fn from(report: &model::LayoutReport) -> Self {
        Self {
            schema: SchemaName::HitmLayout,
            version: LAYOUT_JSON_VERSION,
            hitm: env!("CARGO_PKG_VERSION"),
            binary: report.binary.clone(),
            machine: report.machine.clone(),
            line_size_bytes: report.line_size.bytes(),
            maps: all(&report.maps),
            types: all(&report.types),
            caveats: all(&report.caveats),
        }
    }
}

impl From<&model::LineMap> for Map {
    fn from(map: &model::LineMap) -> Self {
        Self {
            focus: map.focus.as_ref().map(|focus| Focus {
                name: focus.name.clone(),
                address: Hex::from(focus.address),
                size_bytes: focus.size,
                type_name: focus.type_name.clone(),
                lines: focus.lines,
                thread_local: focus.thread_local,
            }),
            sections: all(&map.sections),
            lines: all(&map.lines),
        }
    }
}

impl From<&model::MapSection> for Section {
    fn from(section: &model::MapSection) -> Self {
        Self {
            name: section.name.clone(),
            address: Hex::from(section.address),
            size_bytes: section.size,
            align_bytes: section.align,
            writable: section.writable,
            objects: section.objects,
            shared_lines: section.shared_lines,
        }
    }
}

impl From<&model::MapLine> for Line {
    fn from(line: &model::MapLine) -> Self {
        Self {
            address: Hex::from(line.address),
            parts: line
                .parts
                .iter()
                .map(|part| Part {
                    start: part.bytes.start,
                    end: part.bytes.end,
                    object: Object::from(&part.object),
                })
                .collect(),
        }
    }
}

impl From<&model::DataObject> for Object {
    fn from(object: &model::DataObject) -> Self {
        Self {
            name: object.name.clone(),
            linker_name: object.linker_name.clone(),
            address: Hex::from(object.address),
            size_bytes: object.size,
            section: object.section.clone(),
            align_bytes: object.align,
            address_align_bytes: object.address_align(),
            type_name: object.type_name.clone(),
            declared: object.declared.as_ref().map(Source::from),
            guard_of: object.guard_of.clone(),
        }
    }
}

impl From<&model::TypeView> for Type {
    fn from(view: &model::TypeView) -> Self {
        Self {
            name: view.name.clone(),
            kind: view.kind,
            size_bytes: view.size,
            align_bytes: view.align,
            align_stated: view.align_stated,
            declared: view.declared.as_ref().map(Source::from),
            rows: all(&view.rows),
            variants: view
                .variants
                .iter()
                .map(|variant| Variant {
                    name: variant.name.clone(),
                    value: variant.value.map(|value| value.to_string()),
                    rows: all(&variant.rows),
                })
                .collect(),
            padding_bytes: view.padding,
            holes: view.holes,
            tail_padding_bytes: view.tail_padding,
            placements: all(&view.placements),
            arrays: all(&view.arrays),
            focus: view.focus.as_ref().map(|(name, offset, size)| Field {
                name: name.clone(),
                offset_bytes: *offset,
                size_bytes: *size,
            }),
        }
    }
}

impl From<&model::TypeRow> for Row {
    fn from(row: &model::TypeRow) -> Self {
        let is_padding = row.role == model::RowRole::Padding;
        Self {
            role: match row.role {
                model::RowRole::Field => Role::Field,
                model::RowRole::Base => Role::Base,
                model::RowRole::Discriminant => Role::Discriminant,
                model::RowRole::Niche => Role::Niche,
                model::RowRole::Padding => Role::Padding,
            },
            name: row.name.clone(),
            type_name: (!is_padding).then(|| row.type_name.clone()),
            offset_bytes: row.offset,
            size_bytes: row.size,
            bits: row.bits.map(|(first, count)| Bits { first, count }),
        }
    }
}

impl From<&model::TypePlacement> for Placement {
    fn from(placement: &model::TypePlacement) -> Self {
        Self {
            line_size_bytes: placement.line_size.bytes(),
            base: placement.base,
            worst: placement.worst,
            lines: placement.lines,
            borders: placement.borders.clone(),
        }
    }
}

impl From<&model::ArrayView> for Array {
    fn from(array: &model::ArrayView) -> Self {
        let on_lines = array.on_lines.iter();
        Self {
            line_size_bytes: array.line_size.bytes(),
            period_elements: array.period,
            period_lines: array.period_lines,
            on_lines: on_lines
                .map(|&(first, last)| Elements { first, last })
                .collect(),
            straddling: array.straddling,
            shared: array.shared,
            shared_at_worst: array.shared_at_worst,
        }
    }
}
