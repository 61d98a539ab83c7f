//! Where in the source an instruction is, through all functions inlined there.

use std::path::Path;
use std::rc::Rc;

use gimli::UnitOffset;
use hitm_model::{SourceFrame, SourceLine, Svma, SvmaRange};

use super::DebugInfo;
use super::names;
use super::units::Die;
use crate::image::{Slice, demangle};

impl<'i> DebugInfo<'i> {
    /// The function at an instruction and those it is inlined into, innermost first; empty where nothing is known.
    ///
    /// For a return address pass the address before it: the call may be the last instruction of its line.
    #[must_use]
    pub fn source_frames(&self, svma: Svma) -> Vec<SourceFrame> {
        if let Some(known) = self.frames.borrow().get(&svma.0) {
            return known.to_vec();
        }
        let frames: Rc<[SourceFrame]> = self.find_frames(svma.0).into();
        self.frames.borrow_mut().insert(svma.0, Rc::clone(&frames));
        frames.to_vec()
    }

    /// The instructions of a line of source code, in order of address. The file may be given by the end of its path.
    #[must_use]
    pub fn code_of_line(&self, file: &str, line: u32) -> Vec<SvmaRange> {
        let whole = self.image.image_range();
        let Some(lines) = &self.lines else {
            return Vec::new();
        };
        let Ok(locations) = lines.find_location_range(whole.start.0, whole.end.0) else {
            return Vec::new();
        };
        let mut found: Vec<SvmaRange> = locations
            .filter(|(.., location)| {
                location.line == Some(line)
                    && location
                        .file
                        .is_some_and(|path| Path::new(path).ends_with(file))
            })
            .map(|(start, len, _)| SvmaRange::new(Svma(start), Svma(start.saturating_add(len))))
            .collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The line tables, for an address that may be in them.
    pub(super) fn lines_at(&self, svma: u64) -> Option<&addr2line::Context<Slice<'i>>> {
        let inside = self.image.image_range().contains(Svma(svma));
        self.lines.as_ref().filter(|_| inside)
    }

    fn find_frames(&self, svma: u64) -> Vec<SourceFrame> {
        let mut found = Vec::new();
        if let Some(lines) = self.lines_at(svma)
            && let Ok(mut frames) = lines.find_frames(svma).skip_all_loads()
        {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame
                    .function
                    .and_then(|name| Some(name.raw_name().ok()?.into_owned()))
                    .map(|raw| match frame.dw_die_offset {
                        Some(at) if !is_mangled(&raw) => self.with_scopes(svma, at).unwrap_or(raw),
                        _ => function_name(&raw),
                    });
                found.push((function, frame.location.as_ref().map(line_of)));
            }
        }
        if found.is_empty() {
            found.push((None, None));
        }
        // Where only lines are known, the symbol tells the function.
        let outermost = found.len() - 1;
        let symbol = || Some(function_name(&self.image.symbol_at(Svma(svma))?.raw));
        found
            .into_iter()
            .enumerate()
            .filter_map(|(at, (function, line))| {
                let function = function.or_else(|| symbol().filter(|_| at == outermost));
                if function.is_none() && line.is_none() {
                    return None;
                }
                Some(SourceFrame {
                    function: function.unwrap_or_else(|| "?".to_owned()),
                    line,
                })
            })
            .collect()
    }

    /// The name with scopes of a function that has no linker's name.
    fn with_scopes(&self, svma: u64, offset: UnitOffset) -> Option<String> {
        let number = self.unit_at(svma)?;
        let die = self.units.die(self.units.id(number, offset))?;
        let is_function = matches!(
            die.tag(),
            gimli::DW_TAG_subprogram | gimli::DW_TAG_inlined_subroutine
        );
        is_function.then(|| self.scoped_name(&die))
    }

    /// The name of a function by the scopes it is in.
    pub(super) fn scoped_name(&self, die: &Die<'_, 'i>) -> String {
        let lambda = "(anonymous)::operator()";
        self.qualified(die).replace(lambda, "{lambda}")
    }
}

fn line_of(location: &addr2line::Location<'_>) -> SourceLine {
    SourceLine {
        file: location.file.unwrap_or("?").to_owned(),
        line: location.line.unwrap_or(0),
    }
}

fn is_mangled(raw: &str) -> bool {
    raw.starts_with("_Z") || raw.starts_with("_R")
}

/// A function's name without hash, parameters and the modules of the standard library.
pub(super) fn function_name(raw: &str) -> String {
    let name = demangle(raw);
    if raw.starts_with("_R") || (raw.starts_with("_ZN") && raw.contains("17h")) {
        names::rust_function(&name)
    } else {
        name.into_owned()
    }
}
