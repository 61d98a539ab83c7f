//! DWARF → source frames, variables, types, field paths.
//!
//! A [`DebugInfo`] borrows an [`Image`]. Loading it reads the headers of the units; an index of variables and types is
//! built when the first one is asked for, and what one instruction needs is read from its own unit only. Damaged
//! debug information gives less, never a panic and never an endless search: every walk has a limit.

mod aggregates;
mod catalog;
mod frames;
mod globals;
mod index;
mod layouts;
mod location;
mod members;
mod names;
mod origin;
mod outline;
mod path;
mod places;
mod scan;
mod types;
mod units;
mod variables;
mod words;

use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use gimli::Dwarf;
use hitm_model::SourceFrame;
use rustc_hash::FxHashMap;

use crate::BinaryError;
use crate::image::{Image, Slice};
use index::Index;
use units::{DieId, Units};

pub use aggregates::Aggregate;
pub use catalog::{Catalog, CatalogEntry};
pub use globals::{Global, Origin};
pub use layouts::{BitRange, LayoutMember, LayoutVariant, MemberRole, TypeKind, TypeLayout};
pub use path::{ArrayStep, Container, FieldPath};
pub use places::Place;
pub use variables::{FramePlace, FrameVariable, PointerVariable};
pub use words::{SharedArray, SharedType, SharedWord, WordKind};

/// A type of the program. Types are repeated in each unit that uses them: two ids may mean one type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TypeId(DieId);

/// The debug information of one image.
pub struct DebugInfo<'i> {
    image: &'i Image<'i>,
    units: Units<'i>,
    /// Whether each unit is read for itself, without an index of all.
    local: bool,
    lines: Option<addr2line::Context<Slice<'i>>>,
    index: OnceCell<Index>,
    types: RefCell<FxHashMap<DieId, Option<Rc<types::Type>>>>,
    frames: RefCell<FxHashMap<u64, Rc<[SourceFrame]>>>,
    scopes: RefCell<FxHashMap<u64, Rc<variables::Scope>>>,
    placements: OnceCell<aggregates::Placements>,
}

impl fmt::Debug for DebugInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebugInfo")
            .field("image", self.image)
            .field("units", &self.units.len())
            .finish_non_exhaustive()
    }
}

impl<'i> DebugInfo<'i> {
    /// Reads the unit headers. An image without debug information is no error: symbols answer what they can.
    ///
    /// # Errors
    /// If there is debug information and none of it can be read; see [`DebugInfo::symbols_only`].
    pub fn load(image: &'i Image<'_>) -> Result<Self, BinaryError> {
        let Some(mut dwarf) = image.dwarf() else {
            return Ok(Self::symbols_only(image));
        };
        dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
        let dwarf = Arc::new(dwarf);
        let units = Units::read(Arc::clone(&dwarf));
        let lines = match addr2line::Context::from_arc_dwarf(dwarf) {
            Ok(lines) => Some(lines),
            Err(error) if units.len() == 0 => return Err(error.into()),
            Err(_) => None,
        };
        Ok(Self::new(image, units, lines))
    }

    /// Answers from symbols only.
    #[must_use]
    pub fn symbols_only(image: &'i Image<'_>) -> Self {
        Self::new(image, Units::read(Arc::new(Dwarf::default())), None)
    }

    fn new(
        image: &'i Image<'i>,
        units: Units<'i>,
        lines: Option<addr2line::Context<Slice<'i>>>,
    ) -> Self {
        Self {
            image,
            units,
            local: false,
            lines,
            index: OnceCell::new(),
            types: RefCell::default(),
            frames: RefCell::default(),
            scopes: RefCell::default(),
            placements: OnceCell::new(),
        }
    }

    /// Whether a part of the debug information could not be read.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.units.damaged || (self.lines.is_none() && self.units.len() > 0)
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::build(&self.units))
    }
}
