//! What instructions leave in memory.

use hitm_model::Svma;
use iced_x86::{Instruction, Mnemonic, OpKind};

use super::log::Pointing;
use super::memory::Space;
use super::run::Run;
use crate::program::flow::number;
use crate::program::registers::RBP;
use crate::program::semantics::{self, Machine as _};
use crate::program::value::{Origin, Value, Values};

impl Run<'_, '_> {
    pub(super) fn store(&mut self, instruction: &Instruction, address: &Values, size: usize) {
        self.changes(address, size);
        let sure = address.all().len() == 1;
        let stored = match self.stored(instruction, size) {
            Some(stored) => Some(stored),
            None => self.counted(instruction, address, size),
        };
        if let (Some([value]), [at]) = (stored.as_ref().map(Values::all), address.all())
            && let Some(pointer) = self.in_frame(*at)
        {
            self.log.hint(Svma(instruction.ip()), pointer, *value);
        }
        let pair = self.state.stored_vector(instruction, size);
        for value in address.all() {
            let Some(space) = Space::of(*value) else {
                continue;
            };
            let memory = &mut self.state.memory;
            match &pair {
                Some(pair) => {
                    for (half, values) in pair.iter().enumerate().take(size.div_ceil(8)) {
                        let at = value.plus_number(8 * half as i64);
                        memory.store(space, at, 8, Some(values.clone()), sure);
                    }
                    if size > 16 {
                        let rest = value.plus_number(16);
                        memory.store(space, rest, size - 16, None, sure);
                    }
                }
                None => memory.store(space, *value, size, stored.clone(), sure),
            }
        }
    }

    /// A word of the frame of the function that is being run: where code without optimisation keeps variables.
    fn in_frame(&self, at: Value) -> Option<Pointing> {
        let below = |top: &Values, by: i64| match top.all() {
            [top] if top.origin == at.origin && top.stride == 0 && at.stride == 0 => {
                Some(at.offset.wrapping_sub(top.offset.wrapping_add(by)))
            }
            _ => None,
        };
        // The canonical frame address is behind the return address.
        let cfa = below(&self.frames.last()?.top, 8)?;
        let fp = below(self.state.get(RBP), 0);
        Some(Pointing::Frame { cfa, fp })
    }

    /// What an instruction stores, if it copies it.
    fn stored(&self, instruction: &Instruction, size: usize) -> Option<Values> {
        if instruction.mnemonic() != Mnemonic::Mov {
            return None;
        }
        if instruction.op1_kind() == OpKind::Register {
            let name = instruction.op1_register();
            let values = self
                .state
                .get(number(name).filter(|_| name.size() == size)?);
            return match size {
                8 => Some(values.clone()),
                4 => Some(values.map(|value| semantics::low_half(self, value))),
                _ => None,
            };
        }
        let immediate = instruction.try_immediate(1).ok()?.cast_signed();
        let mask = match size {
            1 => 0xff,
            2 => 0xffff,
            4 => 0xffff_ffff,
            _ => -1,
        };
        Some(self.world.number(immediate & mask).into())
    }

    /// What an instruction leaves in memory that adds a number to what is there: where code without optimisation counts.
    fn counted(&self, instruction: &Instruction, address: &Values, size: usize) -> Option<Values> {
        let constant = || instruction.try_immediate(1).ok().map(u64::cast_signed);
        let by = match instruction.mnemonic() {
            Mnemonic::Add => constant()?,
            Mnemonic::Sub => constant()?.wrapping_neg(),
            Mnemonic::Inc => 1,
            Mnemonic::Dec => -1,
            _ => return None,
        };
        if instruction.has_lock_prefix() || !matches!(size, 4 | 8) {
            return None;
        }
        let values = self.load(address, size);
        let is_known = |value: &Value| !matches!(value.origin, Origin::Something);
        values.all().iter().all(is_known).then(|| {
            values.map(|value| match size {
                8 => value.plus_number(by),
                _ => semantics::low_half(self, value.plus_number(by)),
            })
        })
    }
}
