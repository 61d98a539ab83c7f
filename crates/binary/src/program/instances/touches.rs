//! What is noted of a run: touches of what several threads may reach, and what is written after threads were started.

use hitm_model::{AccessKind, Svma};
use iced_x86::Instruction;

use super::log::Noted;
use super::memory::Space;
use super::run::Run;
use crate::program::semantics;
use crate::program::value::{Lineage, Values};

/// So many changes are noted.
const MOST_CHANGES: usize = 1 << 20;

impl Run<'_, '_> {
    /// Notes a touch of what several threads may reach, and some of what is one thread's alone.
    pub(super) fn touch(
        &mut self,
        instruction: &Instruction,
        address: &Values,
        size: u32,
        kind: AccessKind,
        lock: bool,
    ) {
        if kind.writes() && !lock {
            for value in address.all() {
                if let Some(space) = Space::of(*value) {
                    let size = match value.stride {
                        0 => i64::from(size),
                        _ => i64::MAX,
                    };
                    self.state.held.overwritten(space, value.offset, size);
                }
            }
        }
        let instance = self.errand.run > 0;
        if !(instance || (self.state.is_beside() && self.errand.noted)) {
            return;
        }
        let chosen = address.all().len() > 1;
        let held = self.log.lock_set(&self.state.held);
        for value in address.all() {
            let Some(space) = Space::of(*value) else {
                continue;
            };
            let mut alone = false;
            match space {
                Space::File if !self.world.is_data(value.offset.cast_unsigned()) => continue,
                Space::File => {}
                Space::Block(number) => {
                    let block = &self.log.blocks[number as usize];
                    let own = block.run == self.errand.run;
                    let each = block.repeated && self.errand.many;
                    alone = each || (own && (self.errand.many || !self.state.is_beside()));
                }
            }
            let other = Lineage::OTHER.with(Lineage::ROUND);
            let noted = Noted {
                run: self.errand.run,
                instruction: Svma(instruction.ip()),
                function: self.frames.last().map_or(Svma(0), |frame| frame.function),
                space,
                offset: value.offset,
                stride: value.stride,
                by_thread: value.stride > 0
                    && value.index.meets(Lineage::THREAD)
                    && !value.index.meets(other),
                size,
                kind,
                exchanges: semantics::is_exchange(instruction.mnemonic()),
                lock,
                hot: self.hot,
                chosen,
                held,
            };
            match alone {
                true => self.log.note_alone(noted),
                false => self.log.touches.push(noted),
            }
        }
    }

    /// Notes which threads were started before this is written. What a loop writes for each of the threads that it starts
    /// does not change what the others were given.
    pub(super) fn changes(&mut self, address: &Values, size: usize) {
        if !self.state.is_beside() || self.log.later.len() > MOST_CHANGES {
            return;
        }
        for value in address.all().iter().filter(|value| value.stride == 0) {
            let Some(space) = Space::of(*value) else {
                continue;
            };
            let repeated = match space {
                Space::File => false,
                Space::Block(number) => self.log.blocks[number as usize].repeated,
            };
            if repeated {
                continue;
            }
            let first = value.offset & !7;
            let words = size.div_ceil(8) as i64;
            for word in 0..words {
                for way in self.state.started() {
                    self.log
                        .later
                        .push((space, first.wrapping_add(8 * word), *way));
                }
            }
        }
    }
}
