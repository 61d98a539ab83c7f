//! Story 1 as layouts: one program in many, of which it is known from its addresses whether the hot variables meet.
//!
//! In the field, "are the cursor and the epoch on one line?" told fast from slow without one exception, for every
//! compiler. What hitm says from the binary alone is held to the same standard: the truth here comes from `nm` only.

use std::path::Path;

use crate::fixture::source_dir;
use crate::{Built, CompileError, Language, compile_program, symbol_address};

/// One way to build story 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Story1 {
    /// A word for it.
    pub name: String,
    /// What the compiler is told.
    pub flags: Vec<String>,
}

/// Which of the hot variables are on the line of the cursor, which one thread writes all the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HotLine {
    /// The epoch, which the other thread reads.
    pub epoch: bool,
    /// The guard of the epoch, which it reads too, whenever it reads the epoch.
    pub guard: bool,
}

impl HotLine {
    /// Whether this layout is slow.
    #[must_use]
    pub const fn is_slow(self) -> bool {
        self.epoch || self.guard
    }
}

impl Story1 {
    fn new(name: &str, flags: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        }
    }

    /// The build before the header changed: fast by accident.
    #[must_use]
    pub fn with_header_object() -> Self {
        Self::new("header-object", &["-DHEADER_OBJECT"])
    }

    /// The build after it: the header's 8-byte object is gone, everything is 32 bytes lower, and slow.
    #[must_use]
    pub fn without_header_object() -> Self {
        Self::new("no-header-object", &[])
    }

    /// The repair: the cursor on a line of its own.
    #[must_use]
    pub fn repaired() -> Self {
        Self::new("aligned-cursor", &["-DALIGN_CURSOR"])
    }

    /// The repair that fails: the epoch on a line of its own, its guard still beside the cursor.
    #[must_use]
    pub fn failed_repair() -> Self {
        Self::new("aligned-epoch", &["-DALIGN_EPOCH"])
    }

    /// Fifteen layouts: the four above, and what other subsystems of other sizes make of it.
    #[must_use]
    pub fn variants() -> Vec<Self> {
        let mut variants = vec![
            Self::with_header_object(),
            Self::without_header_object(),
            Self::repaired(),
            Self::failed_repair(),
        ];
        for (before, between, more) in [
            ("8", "0", ""),
            ("8", "0", "-DHEADER_OBJECT"),
            ("24", "0", ""),
            ("24", "0", "-DHEADER_OBJECT"),
            ("40", "0", ""),
            ("40", "24", ""),
            ("40", "24", "-DHEADER_OBJECT"),
            ("48", "0", ""),
            ("48", "0", "-DHEADER_OBJECT"),
            ("48", "64", "-DALIGN_EPOCH"),
            ("56", "0", "-DHEADER_OBJECT"),
        ] {
            let name = format!("{before}-{between}{}", more.to_lowercase());
            let sizes = [format!("-DBEFORE={before}"), format!("-DBETWEEN={between}")];
            let mut flags = sizes.to_vec();
            flags.extend((!more.is_empty()).then(|| more.to_owned()));
            variants.push(Self { name, flags });
        }
        variants
    }

    /// Compiles it, or finds it compiled.
    ///
    /// # Errors
    /// If the compiler is missing or fails.
    pub fn build(&self) -> Result<Built, CompileError> {
        let mut flags = vec!["-fno-toplevel-reorder"];
        flags.extend(self.flags.iter().map(String::as_str));
        let source = source_dir().join("story1_variants.cpp");
        compile_program(Language::Cpp, &source, &flags)
    }
}

/// What the addresses say that nm prints.
///
/// # Errors
/// If nm cannot be run, or a symbol is not there.
pub fn story1_truth(program: &Path) -> Result<HotLine, String> {
    let line = |name| Ok::<u64, String>(symbol_address(program, name)? / 64);
    let cursor = line("mem_array_idx")?;
    Ok(HotLine {
        epoch: line("global_epoch()::global_epoch")? == cursor,
        guard: line("guard variable for global_epoch()::global_epoch")? == cursor,
    })
}
