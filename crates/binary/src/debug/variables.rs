//! Which variables are where at one instruction: pointers in registers, and variables in the frame.

use std::rc::Rc;

use gimli::{AttributeValue, DwTag};
use hitm_model::{Register, SourceLine, Svma};

use super::frames::function_name;
use super::location::{self, Base, Linear, Piece, Place};
use super::units::{self, Die, DieId, Entry};
use super::{DebugInfo, TypeId};

/// A register that points to something of a known type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PointerVariable {
    /// The variable's name.
    pub name: String,
    /// The function it belongs to, which may be inlined.
    pub function: String,
    /// The register.
    pub register: Register,
    /// What to add to the register to get the address of the `pointee`.
    pub offset: i64,
    /// The type of what is at that address.
    pub pointee: TypeId,
}

/// A variable in the frame of a function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameVariable {
    /// Its name.
    pub name: String,
    /// The function it belongs to, which may be inlined.
    pub function: String,
    /// Where it is.
    pub place: FramePlace,
    /// Its size in bytes.
    pub size: u64,
    /// Its type.
    pub ty: TypeId,
    /// Where it is declared.
    pub declared: Option<SourceLine>,
}

/// A place in a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum FramePlace {
    /// From the canonical frame address: the stack pointer before the call.
    CfaOffset(i64),
    /// From the frame pointer, `rbp`.
    FpOffset(i64),
    /// From the stack pointer, where the frame's CFA cannot be told from it.
    SpOffset(i64),
}

/// What is known at one instruction.
#[derive(Debug, Default)]
pub(super) struct Scope {
    pointers: Vec<PointerVariable>,
    frame: Vec<FrameVariable>,
}

const FP: u16 = 6;
const SP: u16 = 7;

/// How many variables of one function are looked at.
const MOST_VARIABLES: usize = 1 << 14;

impl<'i> DebugInfo<'i> {
    /// The variables whose value at this instruction is a register that points to something, innermost function last.
    ///
    /// Parameters and variables of the function and of all functions inlined there count: pointers and references, and
    /// structures of which a register holds a pointer (`Arc`, `Box`, a slice). A variable that is itself in memory at an
    /// address in a register counts as well, as what that register points to.
    #[must_use]
    pub fn pointers_at(&self, ip: Svma) -> Vec<PointerVariable> {
        self.scope_at(ip.0).pointers.clone()
    }

    /// The variables that are in the frame of the function at this instruction, innermost function last.
    ///
    /// For a return address pass the address before it: a variable may be gone when the call returns.
    #[must_use]
    pub fn frame_variables(&self, ip: Svma) -> Vec<FrameVariable> {
        self.scope_at(ip.0).frame.clone()
    }

    /// What a variable of this type points to: a pointer, or what begins with one as a smart pointer does.
    #[must_use]
    pub fn held_pointee(&self, ty: TypeId) -> Option<TypeId> {
        self.pointer_in(ty.0, 0).map(TypeId)
    }

    fn scope_at(&self, ip: u64) -> Rc<Scope> {
        if let Some(known) = self.scopes.borrow().get(&ip) {
            return Rc::clone(known);
        }
        let scope = Rc::new(self.read_scope(ip).unwrap_or_default());
        self.scopes.borrow_mut().insert(ip, Rc::clone(&scope));
        scope
    }

    /// The number of the unit that an instruction belongs to.
    pub(super) fn unit_at(&self, ip: u64) -> Option<usize> {
        let unit = self
            .lines_at(ip)?
            .find_dwarf_and_unit(ip)
            .skip_all_loads()?;
        let offset = unit.header.debug_info_offset()?;
        self.units.number_of(DieId(offset.0 as u64))
    }

    fn read_scope(&self, ip: u64) -> Option<Scope> {
        let number = self.unit_at(ip)?;
        let unit = self.units.unit(number)?;
        let start = self.units.outline(number)?.function_at(ip)?;
        let mut entries = unit.entries_raw(Some(start)).ok()?;
        let mut scope = Scope::default();
        let mut reader = Reader {
            debug: self,
            ip,
            frame_base: None,
            scope: &mut scope,
        };
        // Functions that are open, with the depth of their children.
        let mut functions: Vec<(isize, String)> = Vec::new();
        // The depth of an entry whose children do not matter here.
        let mut skipped: Option<isize> = None;
        let mut entry = Entry::null();
        for count in 0.. {
            let depth = entries.next_depth();
            if entries.is_empty() || (count > 0 && depth <= 0) || count > MOST_VARIABLES {
                break;
            }
            if skipped.is_some_and(|outer| depth > outer) {
                let Ok(abbrev) = entries.read_abbreviation() else {
                    break;
                };
                if let Some(abbrev) = abbrev
                    && entries.skip_attributes(abbrev.attributes()).is_err()
                {
                    break;
                }
                continue;
            }
            skipped = None;
            let Ok(present) = entries.read_entry(&mut entry) else {
                break;
            };
            if !present {
                continue;
            }
            while functions.last().is_some_and(|(inside, _)| *inside > depth) {
                functions.pop();
            }
            let die = Die {
                units: &self.units,
                number,
                unit,
                entry: entry.clone(),
            };
            match entry.tag() {
                gimli::DW_TAG_subprogram if count == 0 => {
                    reader.frame_base = frame_base(&die);
                    functions.push((1, self.function_of(&die)));
                }
                gimli::DW_TAG_inlined_subroutine if covers(&die, ip) => {
                    functions.push((depth + 1, self.function_of(&die)));
                }
                tag if is_block(tag) && covers(&die, ip) => {}
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    let function = functions.last().map_or("?", |(_, name)| name);
                    // What cannot be read of one variable does not keep the others from being read.
                    let _ = reader.variable(&die, function);
                    skipped = Some(depth);
                }
                _ => skipped = Some(depth),
            }
        }
        Some(scope)
    }

    fn function_of(&self, die: &Die<'_, 'i>) -> String {
        let linker_name = |die: &Die<'_, 'i>| {
            die.text(gimli::DW_AT_linkage_name)
                .or_else(|| die.text(gimli::DW_AT_MIPS_linkage_name))
        };
        match die.along_origins(linker_name) {
            Some(raw) => function_name(&raw),
            None => self.scoped_name(die),
        }
    }
}

fn is_block(tag: DwTag) -> bool {
    matches!(
        tag,
        gimli::DW_TAG_lexical_block | gimli::DW_TAG_try_block | gimli::DW_TAG_catch_block
    )
}

/// Whether an instruction is in a block; a block without addresses is everywhere in the one around it.
fn covers(die: &Die<'_, '_>, ip: u64) -> bool {
    let (mut any, mut inside) = (false, false);
    units::ranges(
        &die.units.dwarf,
        die.unit,
        die.entry.attrs(),
        |low, high| {
            any = true;
            inside |= low <= ip && ip < high;
        },
    );
    let stated = [
        gimli::DW_AT_ranges,
        gimli::DW_AT_low_pc,
        gimli::DW_AT_high_pc,
    ];
    inside || (!any && !stated.iter().any(|&name| die.entry.has_attr(name)))
}

/// What the places of a function's variables are counted from.
fn frame_base(die: &Die<'_, '_>) -> Option<Linear> {
    let AttributeValue::Exprloc(expression) = die.value(gimli::DW_AT_frame_base)? else {
        return None;
    };
    match *location::pieces(&die.units.dwarf, die.unit, expression).as_slice() {
        [
            Piece {
                size: None,
                place: Place::Memory(base) | Place::Value(base),
                ..
            },
        ] => Some(base),
        _ => None,
    }
}

/// The pieces of a variable at one instruction.
fn pieces_at(die: &Die<'_, '_>, ip: u64) -> Vec<Piece> {
    let dwarf = &die.units.dwarf;
    let Some(value) = die.value(gimli::DW_AT_location) else {
        return Vec::new();
    };
    if let AttributeValue::Exprloc(expression) = value {
        return location::pieces(dwarf, die.unit, expression);
    }
    if let Ok(Some(mut list)) = dwarf.attr_locations(die.unit, value) {
        while let Ok(Some(entry)) = list.next() {
            if entry.range.begin <= ip && ip < entry.range.end {
                return location::pieces(dwarf, die.unit, entry.data);
            }
        }
    }
    Vec::new()
}

struct Reader<'a, 'i> {
    debug: &'a DebugInfo<'i>,
    ip: u64,
    frame_base: Option<Linear>,
    scope: &'a mut Scope,
}

impl<'i> Reader<'_, 'i> {
    fn variable(&mut self, die: &Die<'_, 'i>, function: &str) -> Option<()> {
        let pieces = pieces_at(die, self.ip);
        if pieces.is_empty() {
            return None;
        }
        let name = die.along_origins(Die::name)?.into_owned();
        let ty = die.along_origins(|die| die.target(gimli::DW_AT_type))?;
        for piece in pieces {
            match piece.place {
                Place::Value(value) => self.value(&name, function, ty, piece, value),
                Place::Memory(at) if piece.size.is_none() => {
                    self.memory(die, &name, function, ty, at)
                }
                _ => {}
            }
        }
        Some(())
    }

    fn value(&mut self, name: &str, function: &str, ty: DieId, piece: Piece, value: Linear) {
        let Base::Register(number) = value.base else {
            return;
        };
        let target = self.debug.pointer_in(ty, piece.offset);
        if let (Some(register), Some(target)) = (Register::from_dwarf(number), target)
            && piece.size.is_none_or(|size| size == 8)
        {
            self.scope.pointers.push(PointerVariable {
                name: name.to_owned(),
                function: function.to_owned(),
                register,
                offset: value.offset,
                pointee: TypeId(target),
            });
        }
    }

    fn memory(&mut self, die: &Die<'_, 'i>, name: &str, function: &str, ty: DieId, at: Linear) {
        let at = match (at.base, self.frame_base) {
            (Base::Frame, Some(base)) => Linear {
                base: base.base,
                offset: base.offset.wrapping_add(at.offset),
            },
            _ => at,
        };
        let place = match at.base {
            Base::Cfa => FramePlace::CfaOffset(at.offset),
            Base::Register(FP) => FramePlace::FpOffset(at.offset),
            // The frame of a thread that sleeps is known by its CFA.
            Base::Register(SP) => match self.debug.image.cfa_above_sp(self.ip) {
                Some(above) => FramePlace::CfaOffset(at.offset.wrapping_sub(above)),
                None => FramePlace::SpOffset(at.offset),
            },
            Base::Register(number) => {
                self.scope
                    .pointers
                    .extend(
                        Register::from_dwarf(number).map(|register| PointerVariable {
                            name: name.to_owned(),
                            function: function.to_owned(),
                            register,
                            offset: at.offset,
                            pointee: TypeId(ty),
                        }),
                    );
                return;
            }
            _ => return,
        };
        self.scope.frame.push(FrameVariable {
            name: name.to_owned(),
            function: function.to_owned(),
            place,
            size: self.debug.size_of(ty).unwrap_or(0),
            ty: TypeId(ty),
            declared: self.debug.declared(die),
        });
    }
}
