//! Two builds of a program: is it the code or the layout?
//!
//! - `pairing`: which variable of one build is which of the other.
//! - `lines`: which variables came onto one line, which parted, and why they moved.
//! - `build`: a build's functions; `matching`: which of one build is which of the other; `meaning`: what the addresses in
//!   them mean; `code`: which are the same but for these.
//! - `types`: which members went over a line border.

mod build;
mod code;
mod lines;
mod matching;
mod meaning;
mod names;
mod pairing;
mod parallel;
mod types;

use std::num::NonZeroUsize;

use hitm_binary::debug::Catalog;
use hitm_binary::image::{Image, ImageMachine, SectionInfo};
use hitm_model::{BuildDiff, LineSize};

use crate::layout::objects_in;
use pairing::pair;

/// One of the two builds.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The file's name.
    pub name: &'a str,
    /// The file.
    pub image: &'a Image<'a>,
    /// Its types, if it has any.
    pub catalog: Option<&'a Catalog<'a>>,
}

/// How two builds are compared.
#[derive(Clone, Copy, Debug)]
pub struct DiffOptions {
    /// By which line size.
    pub line_size: LineSize,
    /// How many threads compare.
    pub jobs: NonZeroUsize,
}

/// Compares two builds.
#[must_use]
pub fn diff(old: Side<'_>, new: Side<'_>, options: &DiffOptions) -> BuildDiff {
    let decodes = |side: Side<'_>| side.image.machine() == ImageMachine::X86_64;
    let same_machine = old.image.machine() == new.image.machine();
    let code = (same_machine && decodes(old) && decodes(new)).then(|| {
        let (old_sections, new_sections) = (old.image.sections(), new.image.sections());
        let old_written = objects_in(old.image, &data(&old_sections, true));
        let new_written = objects_in(new.image, &data(&new_sections, true));
        let old_constants = objects_in(old.image, &data(&old_sections, false));
        let new_constants = objects_in(new.image, &data(&new_sections, false));
        let jobs = options.jobs;
        let (was, is) = (
            build::Build::new(old.image, &old_sections, &old_written, old_constants, jobs),
            build::Build::new(new.image, &new_sections, &new_written, new_constants, jobs),
        );
        code::compare(&was, &is, jobs)
    });
    let types = old
        .catalog
        .zip(new.catalog)
        .map(|(old, new)| types::compare(old, new, options));
    BuildDiff {
        code,
        types,
        ..diff_variables(old, new, options.line_size)
    }
}

/// Compares where the variables of two builds are, and nothing else: there is no word of code and types in what comes out.
#[must_use]
pub fn diff_variables(old: Side<'_>, new: Side<'_>, line_size: LineSize) -> BuildDiff {
    let (old_sections, new_sections) = (old.image.sections(), new.image.sections());
    let old_written = objects_in(old.image, &data(&old_sections, true));
    let new_written = objects_in(new.image, &data(&new_sections, true));
    let variables = pair(&old_written, &new_written);
    let changes = lines::compare(
        lines::Build {
            objects: &old_written,
            sections: &old_sections,
        },
        lines::Build {
            objects: &new_written,
            sections: &new_sections,
        },
        &variables,
        line_size,
    );
    BuildDiff {
        old: old.name.to_owned(),
        new: new.name.to_owned(),
        line_size,
        objects: variables.both.len() as u64,
        joined: changes.joined,
        parted: changes.parted,
        new_neighbours: changes.new_neighbours,
        shifts: changes.shifts,
        variables: changes.variables,
        code: None,
        types: None,
        caveats: Vec::new(),
    }
}

/// The sections without code that the program may write to, or those that it may not.
fn data<'d>(sections: &[SectionInfo<'d>], writable: bool) -> Vec<SectionInfo<'d>> {
    let wanted = |section: &&SectionInfo<'d>| !section.executable && section.writable == writable;
    sections.iter().filter(wanted).copied().collect()
}
