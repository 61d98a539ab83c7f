//! Why a file's bytes cannot be used.

use hitm_model::BuildId;

/// What is wrong with a binary as a whole. Damage in parts of it is not an error: there is less information then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BinaryError {
    /// The bytes do not begin as an ELF file does.
    #[error("not an ELF file")]
    NotElf,
    /// A 32-bit program.
    #[error("a 32-bit ELF file; hitm reads 64-bit ones")]
    Not64Bit,
    /// A program for another processor.
    #[error("an ELF file for another machine (e_machine {machine}); hitm reads x86-64 ones")]
    ForeignMachine {
        /// The number in its header.
        machine: u16,
    },
    /// A program for a big-endian processor.
    #[error("a big-endian ELF file (e_machine {machine}); hitm reads little-endian ones")]
    BigEndian {
        /// The number in its header.
        machine: u16,
    },
    /// An object file or a core dump: its addresses are not those of a process.
    #[error("neither a program nor a shared library{}", kind_of(*.kind))]
    NotLinked {
        /// The number in its header.
        kind: u16,
    },
    /// The headers that everything else hangs from cannot be read.
    #[error("damaged ELF file: {what}")]
    Damaged {
        /// Which part.
        what: &'static str,
        /// How.
        source: object::read::Error,
    },
    /// A separate debug file is of another build.
    #[error("the debug file is of another build: {} instead of {}", show(.found), show(.expected))]
    BuildIdDiffers {
        /// The binary's.
        expected: Option<BuildId>,
        /// The debug file's.
        found: Option<BuildId>,
    },
    /// The DWARF cannot be read at all.
    #[error("damaged debug information")]
    Dwarf(#[from] gimli::Error),
}

fn kind_of(e_type: u16) -> String {
    match e_type {
        1 => ", but an object file that is not linked yet".to_owned(),
        4 => ", but a core dump".to_owned(),
        other => format!(" (e_type {other})"),
    }
}

fn show(id: &Option<BuildId>) -> String {
    id.as_ref()
        .map_or_else(|| "none".to_owned(), ToString::to_string)
}
