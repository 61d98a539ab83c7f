//! Functions and variables of other files: which word of memory the loader puts their address into.

use hitm_model::Svma;
use iced_x86::{Code as Opcode, Decoder, DecoderOptions, Instruction};
use rustc_hash::FxHashMap;

use super::calls;
use super::value::{Origin, Value};
use crate::image::{Image, Pointee};

/// What the loader writes into memory before the program begins.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// Names of imported functions.
    pub(super) names: Vec<String>,
    slots: FxHashMap<u64, Slot>,
    /// Functions that are meant as if they were another file's: those of a C library that is linked in.
    linked_in: FxHashMap<Svma, u32>,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Import(u32),
    Address(u64),
}

/// What a C library begins a program with.
const START: &str = "__libc_start_main";

/// Stubs of the procedure linkage table are this long at most.
const STUB: usize = 24;

impl Imports {
    pub(super) fn of(image: &Image<'_>) -> Self {
        let mut imports = Self::default();
        let mut numbers: FxHashMap<String, u32> = FxHashMap::default();
        image.relocated_pointers(&mut |at, pointee| {
            let slot = match pointee {
                Pointee::Address(address) => Slot::Address(address.0),
                Pointee::Named(name) => {
                    let next = imports.names.len() as u32;
                    let number = *numbers.entry(name.to_owned()).or_insert(next);
                    if number == next {
                        imports.names.push(name.to_owned());
                    }
                    Slot::Import(number)
                }
            };
            imports.slots.insert(at.0, slot);
        });
        if image.has_c_library() {
            // The library's own calls of `clone` start no thread of the program's.
            let known = |name: &str| name != "clone" && (calls::is_known(name) || name == START);
            for (at, name) in image.functions_named(&known) {
                let next = imports.names.len() as u32;
                let number = *numbers.entry(name.clone()).or_insert(next);
                if number == next {
                    imports.names.push(name);
                }
                imports.linked_in.insert(at, number);
            }
        }
        imports
    }

    /// The number of a function of the C library that is linked in.
    pub(super) fn linked_in(&self, function: Svma) -> Option<u32> {
        self.linked_in.get(&function).copied()
    }

    /// What the loader puts at an address.
    pub(super) fn at(&self, address: u64) -> Option<Value> {
        Some(match *self.slots.get(&address)? {
            Slot::Import(number) => {
                Value::of(Origin::Import(number), 0, super::value::Lineage::NONE)
            }
            Slot::Address(address) => Value::in_file(address),
        })
    }

    /// The import that the stub at an address jumps to.
    pub(super) fn behind_stub(&self, image: &Image<'_>, stub: Svma) -> Option<u32> {
        let (name, section) = image.section_range_at(stub)?;
        if !name.starts_with(".plt") {
            return None;
        }
        let end = section.end.min(stub.wrapping_add(STUB as u64));
        let bytes = image.code(hitm_model::SvmaRange::new(stub, end))?;
        let mut decoder = Decoder::with_ip(64, bytes, stub.0, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        for _ in 0..3 {
            decoder.can_decode().then_some(())?;
            decoder.decode_out(&mut instruction);
            if instruction.code() == Opcode::Jmp_rm64 && instruction.is_ip_rel_memory_operand() {
                let slot = instruction.ip_rel_memory_address();
                return match *self.slots.get(&slot)? {
                    Slot::Import(number) => Some(number),
                    Slot::Address(_) => None,
                };
            }
        }
        None
    }
}
