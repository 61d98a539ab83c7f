//! What differs between two builds of a program, as far as it can change how fast it is: lines, code, types.

use crate::{Caveat, LineSize, Svma};

/// Two builds compared.
#[derive(Clone, PartialEq, Debug)]
pub struct BuildDiff {
    /// The file of the old build.
    pub old: String,
    /// The file of the new build.
    pub new: String,
    /// By which line size.
    pub line_size: LineSize,
    /// Variables that both builds have.
    pub objects: u64,
    /// Pairs of variables that came onto one line.
    pub joined: Vec<PairChange>,
    /// Pairs of variables that no longer share a line.
    pub parted: Vec<PairChange>,
    /// Variables that are new, and one that both builds have on the same line.
    pub new_neighbours: Vec<NewNeighbour>,
    /// Variables that moved, by runs that moved by the same distance.
    pub shifts: Vec<Shift>,
    /// Variables that appeared, vanished or changed their size.
    pub variables: Vec<SymbolChange>,
    /// The code; `None` where it was not compared.
    pub code: Option<CodeDiff>,
    /// The types; `None` without debug information on both sides.
    pub types: Option<TypesDiff>,
    /// What limits it.
    pub caveats: Vec<Caveat>,
}

/// What differs, in a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiffVerdict {
    /// No function changed, no pair of variables joined or parted.
    Neither,
    /// Only pairs of variables joined or parted.
    Layout,
    /// Only functions changed.
    Code,
    /// Both.
    Both,
    /// Whether code changed is not known.
    CannotTell,
}

impl BuildDiff {
    /// Whether it is the code or the layout.
    #[must_use]
    pub fn verdict(&self) -> DiffVerdict {
        let layout = !self.joined.is_empty() || !self.parted.is_empty();
        match &self.code {
            None => DiffVerdict::CannotTell,
            // Without names there is nothing to compare.
            Some(code) if code.compared() == 0 => DiffVerdict::CannotTell,
            Some(code) => match (layout, code.changed.is_empty()) {
                (false, true) => DiffVerdict::Neither,
                (true, true) => DiffVerdict::Layout,
                (false, false) => DiffVerdict::Code,
                (true, false) => DiffVerdict::Both,
            },
        }
    }
}

/// A variable that both builds have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedObject {
    /// Its name.
    pub name: String,
    /// Its section in the new build.
    pub section: String,
    /// Its size in the new build, in bytes.
    pub size: u64,
    /// Where it was.
    pub old: Svma,
    /// Where it is.
    pub new: Svma,
}

/// Two variables that share a line in one of two builds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PairChange {
    /// The line that they share, in the build in which they do.
    pub line: Svma,
    /// The first of them by address.
    pub a: MovedObject,
    /// The other.
    pub b: MovedObject,
}

/// A variable that is new on the line of one that both builds have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNeighbour {
    /// The line.
    pub line: Svma,
    /// The new variable.
    pub appeared: String,
    /// The one that was there.
    pub beside: MovedObject,
}

/// Neighbours that moved by the same distance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shift {
    /// Their section.
    pub section: String,
    /// The first of them in the new build.
    pub first: String,
    /// The last of them.
    pub last: String,
    /// How many they are.
    pub objects: u64,
    /// By how many bytes: below 0 to lower addresses.
    pub bytes: i64,
    /// Whether it is a multiple of the line size: nothing changes on their lines then, but at the ends.
    pub whole_lines: bool,
    /// Why.
    pub causes: Vec<ShiftCause>,
}

/// Why variables moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ShiftCause {
    /// A variable before them is gone.
    Vanished {
        /// Its name.
        name: String,
        /// Its size in bytes.
        size: u64,
    },
    /// A variable before them is new.
    Appeared {
        /// Its name.
        name: String,
        /// Its size in bytes.
        size: u64,
    },
    /// The variable before them changed its size.
    Resized {
        /// Its name.
        name: String,
        /// Its old size in bytes.
        old: u64,
        /// Its new size in bytes.
        new: u64,
    },
    /// The first of them is aligned, and what is before it moved.
    Aligned {
        /// To how many bytes, as both its addresses show.
        bytes: u64,
    },
    /// Their section begins elsewhere.
    Section,
    /// The order of variables is another one.
    Reordered,
}

/// A symbol that is not the same in both builds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SymbolChange {
    /// Its name.
    pub name: String,
    /// Its section.
    pub section: String,
    /// Its old size in bytes; `None` if it appeared.
    pub old_size: Option<u64>,
    /// Its new size in bytes; `None` if it vanished.
    pub new_size: Option<u64>,
}

/// What became of the functions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeDiff {
    /// Functions with the same bytes.
    pub identical: u64,
    /// Functions with the same instructions, but for the addresses in them.
    pub but_for_addresses: u64,
    /// The instructions of both kinds.
    pub same_instructions: u64,
    /// The largest function that is the same but for addresses, and its instructions.
    pub largest_same: Option<(String, u64)>,
    /// Functions with other instructions.
    pub changed: Vec<FunctionChange>,
    /// Functions with the same instructions that point to constants with other bytes: texts, tables.
    pub other_constants: Vec<FunctionChange>,
    /// Functions that only the new build has.
    pub appeared: Vec<SymbolChange>,
    /// Functions that only the old build had.
    pub vanished: Vec<SymbolChange>,
}

impl CodeDiff {
    /// Functions that both builds have.
    #[must_use]
    pub fn compared(&self) -> u64 {
        let listed = self.changed.len() + self.other_constants.len();
        self.identical + self.but_for_addresses + listed as u64
    }
}

/// A function with other instructions, or other constants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionChange {
    /// Its name.
    pub name: String,
    /// Its instructions before, padding not counted; 0 where they were not decoded.
    pub old_instructions: u64,
    /// Its instructions now.
    pub new_instructions: u64,
    /// The first instruction that differs, in the old and in the new build; `None` where they were not decoded.
    pub first: Option<(Svma, Svma)>,
    /// Why the first one differs.
    pub why: String,
}

/// What became of the types.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TypesDiff {
    /// Types of both builds, by name.
    pub both: u64,
    /// Types whose members are at other places.
    pub changed: Vec<TypeChange>,
    /// Names of several types that differ, which cannot be told apart.
    pub ambiguous: u64,
}

/// A type whose members are at other places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeChange {
    /// Its name.
    pub name: String,
    /// Its old size in bytes.
    pub old_size: u64,
    /// Its new size in bytes.
    pub new_size: u64,
    /// Members of an instance at the start of a line that are on another of its lines now.
    pub moved: Vec<MemberMove>,
    /// Members that came onto one line.
    pub joined: Vec<(String, String)>,
    /// Members that no longer share a line.
    pub parted: Vec<(String, String)>,
    /// Members that are new.
    pub appeared: Vec<String>,
    /// Members that are gone.
    pub vanished: Vec<String>,
}

/// A member that went over a line border.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberMove {
    /// Its name.
    pub name: String,
    /// Its old offset in bytes.
    pub old: u64,
    /// Its new offset in bytes.
    pub new: u64,
}
