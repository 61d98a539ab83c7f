//! What the bytes of a binary say about its cache lines, before it runs.

use crate::{ByteRange, Caveat, LineSize, SourceLine, Svma};

/// The lines of a binary's data that hold more than one object, or those around one place.
#[derive(Clone, PartialEq, Debug)]
pub struct LineMap {
    /// By which line size.
    pub line_size: LineSize,
    /// What was asked for; `None` for all of it.
    pub focus: Option<Focus>,
    /// The sections that were looked at, in address order.
    pub sections: Vec<MapSection>,
    /// The lines, in address order.
    pub lines: Vec<MapLine>,
}

/// The place that was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Focus {
    /// As it is called.
    pub name: String,
    /// Where it is.
    pub address: Svma,
    /// Its size in bytes; 0 for an address.
    pub size: u64,
    /// The name of its type.
    pub type_name: Option<String>,
    /// How many lines it is on.
    pub lines: u64,
    /// Whether each thread has one of its own: the lines are those of the template then.
    pub thread_local: bool,
}

/// A section of data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapSection {
    /// Its name.
    pub name: String,
    /// Where it starts.
    pub address: Svma,
    /// Its size in bytes.
    pub size: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// Whether the program may write to it once it runs.
    pub writable: bool,
    /// Objects in it.
    pub objects: u64,
    /// Lines that hold more than one object.
    pub shared_lines: u64,
}

/// One line and the objects on it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapLine {
    /// Its first byte.
    pub address: Svma,
    /// The objects, in address order.
    pub parts: Vec<MapPart>,
}

/// An object's part of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MapPart {
    /// The object.
    pub object: DataObject,
    /// Its bytes of this line.
    pub bytes: ByteRange,
}

/// A variable with an address of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataObject {
    /// Its name.
    pub name: String,
    /// The linker's name for it.
    pub linker_name: String,
    /// Where it starts.
    pub address: Svma,
    /// Its size in bytes.
    pub size: u64,
    /// The section that it is in.
    pub section: String,
    /// What its type, or its declaration, asks for, in bytes; `None` where it is not known.
    pub align: Option<u64>,
    /// Its type.
    pub type_name: Option<String>,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
    /// The variable whose initialisation it guards.
    pub guard_of: Option<String>,
}

impl DataObject {
    /// The largest power of two that its address is a multiple of, up to a page.
    #[must_use]
    pub const fn address_align(&self) -> u64 {
        let zeros = self.address.0.trailing_zeros();
        1 << if zeros < 12 { zeros } else { 12 }
    }
}

/// How a type lies on lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeView {
    /// Its name with namespaces.
    pub name: String,
    /// The word for what it is: `struct`, `enum`.
    pub kind: &'static str,
    /// Its size in bytes.
    pub size: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// Whether the source states the alignment.
    pub align_stated: bool,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
    /// What it is made of, by offset.
    pub rows: Vec<TypeRow>,
    /// Of an enumeration with data: its variants.
    pub variants: Vec<VariantView>,
    /// Bytes that nothing uses, in whole or in part.
    pub padding: u64,
    /// Stretches of such bytes.
    pub holes: u64,
    /// Of `padding`, what is at the end.
    pub tail_padding: u64,
    /// How an instance lies on lines, for each line size.
    pub placements: Vec<TypePlacement>,
    /// How elements of an array of it do.
    pub arrays: Vec<ArrayView>,
    /// The field that was asked for: its name, offset and size.
    pub focus: Option<(String, u64, Option<u64>)>,
}

/// A member, or what is between two of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeRow {
    /// Bytes from the start of the type.
    pub offset: u64,
    /// Its size in bytes; `None` for an array of any length at the end.
    pub size: Option<u64>,
    /// Of a bit field: its first bit from the start of the type, and the number of bits.
    pub bits: Option<(u64, u64)>,
    /// Its name.
    pub name: Option<String>,
    /// Its type's name; empty for padding.
    pub type_name: String,
    /// What it is.
    pub role: RowRole,
}

/// What a row of a type is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RowRole {
    /// A field.
    Field,
    /// A base class.
    Base,
    /// Tells which variant of an enumeration it is.
    Discriminant,
    /// The same, in bytes that a variant uses too.
    Niche,
    /// Bytes that nothing uses.
    Padding,
}

/// One variant of an enumeration with data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VariantView {
    /// Its name.
    pub name: String,
    /// The discriminant that means it; `None` where all other values do.
    pub value: Option<i128>,
    /// Its fields.
    pub rows: Vec<TypeRow>,
}

/// How one instance lies on lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypePlacement {
    /// By which line size.
    pub line_size: LineSize,
    /// Where on its first line it begins.
    pub base: u32,
    /// Whether that is the base on most lines of all that the alignment allows.
    pub worst: bool,
    /// The lines it is on.
    pub lines: u64,
    /// The offsets in it at which a further line begins; at most [`TypePlacement::MOST_BORDERS`] of them.
    pub borders: Vec<u64>,
}

impl TypePlacement {
    /// So many borders are listed. A type with more is an array for the most part.
    pub const MOST_BORDERS: usize = 64;
}

/// Which elements of an array share a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayView {
    /// By which line size.
    pub line_size: LineSize,
    /// After so many elements it begins anew.
    pub period: u64,
    /// The lines that these are on, where the first element begins a line.
    pub period_lines: u64,
    /// The first and the last element on each of these lines; at most [`ArrayView::MOST_LINES`] of them.
    pub on_lines: Vec<(u64, u64)>,
    /// Of a period, the elements that are on one line more than they need.
    pub straddling: u64,
    /// Whether elements share a line where the first begins a line.
    pub shared: bool,
    /// Whether they do where it begins as unluckily as its alignment allows.
    pub shared_at_worst: bool,
}

impl ArrayView {
    /// So many lines are listed.
    pub const MOST_LINES: usize = 8;
}

/// All that was asked about the layout of one binary.
#[derive(Clone, PartialEq, Debug)]
pub struct LayoutReport {
    /// The file.
    pub binary: String,
    /// The processor that it is for.
    pub machine: String,
    /// By which line size.
    pub line_size: LineSize,
    /// Lines: one map for each place that was asked for, or one for all.
    pub maps: Vec<LineMap>,
    /// Types.
    pub types: Vec<TypeView>,
    /// What limits it.
    pub caveats: Vec<Caveat>,
}
