//! The types of the JSON document of a comparison, and how they are made. Their documentation becomes the schema's.

use hitm_model as model;
use schemars::JsonSchema;
use serde::Serialize;

use super::DIFF_JSON_VERSION;
use crate::json::{Caveat, Hex};

/// What differs between two builds.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "hitm-diff")]
pub(super) struct Document {
    /// What kind of document this is.
    schema: SchemaName,
    /// The version of the document's format.
    #[schemars(extend("const" = DIFF_JSON_VERSION))]
    version: u32,
    /// The version of the hitm that made it.
    hitm: &'static str,
    /// The file of the old build.
    old: String,
    /// The file of the new build.
    new: String,
    /// By which line size, in bytes.
    line_size_bytes: u32,
    /// Whether it is the code or the layout.
    verdict: Verdict,
    /// Variables that both builds have.
    objects: u64,
    /// Pairs of variables that came onto one line, the program's own first.
    joined: Vec<Pair>,
    /// Pairs of variables that no longer share a line, the program's own first.
    parted: Vec<Pair>,
    /// Variables that are new on the line of one that both builds have.
    new_neighbours: Vec<NewNeighbour>,
    /// Runs of variables that moved by one distance, in the order of the new build's sections and addresses.
    shifts: Vec<Shift>,
    /// Variables that appeared, vanished or changed their size.
    variables: Vec<Symbol>,
    /// The functions; null where code was not compared.
    code: Option<Code>,
    /// The types; null where one of the builds has no debug information.
    types: Option<Types>,
    /// What limits all of it.
    caveats: Vec<Caveat>,
}

/// The name of this kind of document.
#[derive(Serialize, JsonSchema)]
enum SchemaName {
    #[serde(rename = "hitm-diff")]
    HitmDiff,
}

/// What differs, in a word: functions that both builds have and are not the same, pairs that joined or parted.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Neither,
    Layout,
    Code,
    Both,
    CannotTell,
}

/// Two variables that share a line in one of the builds.
#[derive(Serialize, JsonSchema)]
struct Pair {
    /// The line, in the build in which they share it.
    line: Hex,
    /// The first by address.
    a: Object,
    /// The other.
    b: Object,
}

/// A variable that both builds have.
#[derive(Serialize, JsonSchema)]
struct Object {
    /// Its name.
    name: String,
    /// Its section in the new build.
    section: String,
    /// Its size in the new build, in bytes.
    size_bytes: u64,
    /// Where it was.
    old_address: Hex,
    /// Where it is.
    new_address: Hex,
}

/// A variable that is new on a line.
#[derive(Serialize, JsonSchema)]
struct NewNeighbour {
    /// The line in the new build.
    line: Hex,
    /// The new variable.
    appeared: String,
    /// One that both builds have.
    beside: Object,
}

/// Neighbours that moved by the same distance.
#[derive(Serialize, JsonSchema)]
struct Shift {
    /// Their section.
    section: String,
    /// The first of them in the new build.
    first: String,
    /// The last of them.
    last: String,
    /// How many they are.
    objects: u64,
    /// By how many bytes; below 0 to lower addresses.
    bytes: i64,
    /// Whether it is a multiple of the line size.
    whole_lines: bool,
    /// Why, as far as it can be told.
    causes: Vec<Cause>,
}

/// Why variables moved.
#[derive(Serialize, JsonSchema)]
#[serde(tag = "cause", rename_all = "kebab-case")]
enum Cause {
    /// A variable before them is gone.
    Vanished {
        /// Its name.
        name: String,
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// A variable before them is new.
    Appeared {
        /// Its name.
        name: String,
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// The variable before them changed its size.
    Resized {
        /// Its name.
        name: String,
        /// Its old size in bytes.
        old_size_bytes: u64,
        /// Its new size in bytes.
        new_size_bytes: u64,
    },
    /// The first of them is aligned.
    Aligned {
        /// To how many bytes, as both its addresses show; at most 4096.
        bytes: u64,
    },
    /// Their section begins elsewhere.
    Section,
    /// The order of variables is another one.
    Reordered,
}

/// A symbol that is not the same in both builds.
#[derive(Serialize, JsonSchema)]
struct Symbol {
    /// Its name.
    name: String,
    /// Its section.
    section: String,
    /// Its old size in bytes; null if it appeared.
    old_size_bytes: Option<u64>,
    /// Its new size in bytes; null if it vanished.
    new_size_bytes: Option<u64>,
}

/// What became of the functions.
#[derive(Serialize, JsonSchema)]
struct Code {
    /// Functions with the same bytes.
    identical: u64,
    /// Functions with the same instructions, but for the addresses in them.
    identical_but_for_addresses: u64,
    /// The instructions of both kinds, padding not counted.
    same_instructions: u64,
    /// Functions with other instructions, the program's own first.
    changed: Vec<Function>,
    /// Functions with the same instructions that point to constants with other bytes, as texts; the program's own first.
    other_constants: Vec<Function>,
    /// Functions that only the new build has.
    appeared: Vec<Symbol>,
    /// Functions that only the old build had.
    vanished: Vec<Symbol>,
}

/// A function with other instructions.
#[derive(Serialize, JsonSchema)]
struct Function {
    /// Its name.
    name: String,
    /// Its instructions in the old build.
    old_instructions: u64,
    /// Its instructions in the new build.
    new_instructions: u64,
    /// The first one that differs, in the old build; null if they were not decoded.
    first_old: Option<Hex>,
    /// The first one that differs, in the new build; null if they were not decoded.
    first_new: Option<Hex>,
    /// Why it differs.
    why: String,
}

/// What became of the types.
#[derive(Serialize, JsonSchema)]
struct Types {
    /// Names of types in both builds.
    both: u64,
    /// Types whose members are at other places, those with members over a line border first.
    changed: Vec<Type>,
    /// Names of several types that differ, which cannot be told apart.
    ambiguous: u64,
}

/// A type whose members are at other places.
#[derive(Serialize, JsonSchema)]
struct Type {
    /// Its name.
    name: String,
    /// Its old size in bytes.
    old_size_bytes: u64,
    /// Its new size in bytes.
    new_size_bytes: u64,
    /// Members that are on another line of an instance at the start of a line.
    moved: Vec<Member>,
    /// Members that came onto one line.
    joined: Vec<MemberPair>,
    /// Members that no longer share a line.
    parted: Vec<MemberPair>,
    /// Members that are new.
    appeared: Vec<String>,
    /// Members that are gone.
    vanished: Vec<String>,
}

/// A member that went over a line border.
#[derive(Serialize, JsonSchema)]
struct Member {
    /// Its name.
    name: String,
    /// Its old offset in bytes.
    old_offset_bytes: u64,
    /// Its new offset in bytes.
    new_offset_bytes: u64,
}

/// Two members of a type.
#[derive(Serialize, JsonSchema)]
struct MemberPair {
    /// The one.
    a: String,
    /// The other.
    b: String,
}

fn all<'a, From, To: std::convert::From<&'a From>>(from: &'a [From]) -> Vec<To> {
    from.iter().map(To::from).collect()
}

impl From<&model::BuildDiff> for Document {
    fn from(diff: &model::BuildDiff) -> Self {
        Self {
            schema: SchemaName::HitmDiff,
            version: DIFF_JSON_VERSION,
            hitm: env!("CARGO_PKG_VERSION"),
            old: diff.old.clone(),
            new: diff.new.clone(),
            line_size_bytes: diff.line_size.bytes(),
            verdict: match diff.verdict() {
                model::DiffVerdict::Neither => Verdict::Neither,
                model::DiffVerdict::Layout => Verdict::Layout,
                model::DiffVerdict::Code => Verdict::Code,
                model::DiffVerdict::Both => Verdict::Both,
                model::DiffVerdict::CannotTell => Verdict::CannotTell,
            },
            objects: diff.objects,
            joined: all(&diff.joined),
            parted: all(&diff.parted),
            new_neighbours: diff
                .new_neighbours
                .iter()
                .map(|new| NewNeighbour {
                    line: Hex::from(new.line),
                    appeared: new.appeared.clone(),
                    beside: Object::from(&new.beside),
                })
                .collect(),
            shifts: all(&diff.shifts),
            variables: all(&diff.variables),
            code: diff.code.as_ref().map(Code::from),
            types: diff.types.as_ref().map(|types| Types {
                both: types.both,
                changed: all(&types.changed),
                ambiguous: types.ambiguous,
            }),
            caveats: all(&diff.caveats),
        }
    }
}

impl From<&model::PairChange> for Pair {
    fn from(pair: &model::PairChange) -> Self {
        Self {
            line: Hex::from(pair.line),
            a: Object::from(&pair.a),
            b: Object::from(&pair.b),
        }
    }
}

impl From<&model::MovedObject> for Object {
    fn from(object: &model::MovedObject) -> Self {
        Self {
            name: object.name.clone(),
            section: object.section.clone(),
            size_bytes: object.size,
            old_address: Hex::from(object.old),
            new_address: Hex::from(object.new),
        }
    }
}

impl From<&model::Shift> for Shift {
    fn from(shift: &model::Shift) -> Self {
        Self {
            section: shift.section.clone(),
            first: shift.first.clone(),
            last: shift.last.clone(),
            objects: shift.objects,
            bytes: shift.bytes,
            whole_lines: shift.whole_lines,
            causes: all(&shift.causes),
        }
    }
}

impl From<&model::ShiftCause> for Cause {
    fn from(cause: &model::ShiftCause) -> Self {
        match cause {
            model::ShiftCause::Vanished { name, size } => Self::Vanished {
                name: name.clone(),
                size_bytes: *size,
            },
            model::ShiftCause::Appeared { name, size } => Self::Appeared {
                name: name.clone(),
                size_bytes: *size,
            },
            model::ShiftCause::Resized { name, old, new } => Self::Resized {
                name: name.clone(),
                old_size_bytes: *old,
                new_size_bytes: *new,
            },
            model::ShiftCause::Aligned { bytes } => Self::Aligned { bytes: *bytes },
            model::ShiftCause::Section => Self::Section,
            model::ShiftCause::Reordered => Self::Reordered,
        }
    }
}

impl From<&model::SymbolChange> for Symbol {
    fn from(change: &model::SymbolChange) -> Self {
        Self {
            name: change.name.clone(),
            section: change.section.clone(),
            old_size_bytes: change.old_size,
            new_size_bytes: change.new_size,
        }
    }
}

impl From<&model::CodeDiff> for Code {
    fn from(code: &model::CodeDiff) -> Self {
        Self {
            identical: code.identical,
            identical_but_for_addresses: code.but_for_addresses,
            same_instructions: code.same_instructions,
            changed: all(&code.changed),
            other_constants: all(&code.other_constants),
            appeared: all(&code.appeared),
            vanished: all(&code.vanished),
        }
    }
}

impl From<&model::FunctionChange> for Function {
    fn from(change: &model::FunctionChange) -> Self {
        Self {
            name: change.name.clone(),
            old_instructions: change.old_instructions,
            new_instructions: change.new_instructions,
            first_old: change.first.map(|(old, _)| Hex::from(old)),
            first_new: change.first.map(|(_, new)| Hex::from(new)),
            why: change.why.clone(),
        }
    }
}

impl From<&model::TypeChange> for Type {
    fn from(change: &model::TypeChange) -> Self {
        let moved = change.moved.iter();
        Self {
            name: change.name.clone(),
            old_size_bytes: change.old_size,
            new_size_bytes: change.new_size,
            moved: moved
                .map(|member| Member {
                    name: member.name.clone(),
                    old_offset_bytes: member.old,
                    new_offset_bytes: member.new,
                })
                .collect(),
            joined: all(&change.joined),
            parted: all(&change.parted),
            appeared: change.appeared.clone(),
            vanished: change.vanished.clone(),
        }
    }
}

impl From<&(String, String)> for MemberPair {
    fn from((a, b): &(String, String)) -> Self {
        Self {
            a: a.clone(),
            b: b.clone(),
        }
    }
}
