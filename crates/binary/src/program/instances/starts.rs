//! Starts of threads, with what is known then.

use hitm_model::Svma;
use iced_x86::Instruction;

use super::log::Start;
use super::run::Run;
use crate::program::Target;
use crate::program::calls::Starts;
use crate::program::registers::ARGUMENTS;
use crate::program::semantics::Machine as _;
use crate::program::value::{Lineage, Value, Values};

impl Run<'_, '_> {
    /// A thread is started.
    pub(super) fn start(&mut self, instruction: &Instruction, target: Target, starts: Starts) {
        let site = Svma(instruction.ip());
        let argument = |run: &Self, number: usize| run.state.get(ARGUMENTS[number]).clone();
        let unknown = || Values::from(Value::something(Lineage::OTHER));
        let mut arguments: [Values; 6] = std::array::from_fn(|_| unknown());
        let routine = match starts {
            Starts::Routine {
                argument: number, ..
            } => {
                let name = match target {
                    Target::Import(number) => self.world.ground.import(number),
                    Target::Function(_) => None,
                };
                let last = name.is_some_and(|name| name.starts_with("clone"));
                arguments[0] = argument(self, if last { 3 } else { number + 1 });
                argument(self, number)
            }
            Starts::Parallel(0) => {
                arguments[0] = argument(self, 1);
                argument(self, 0)
            }
            Starts::Parallel(number) => {
                // The thread's number and its own copy of it, then what the program passes.
                let own = Values::from(Value::something(Lineage::THREAD));
                arguments[0] = own.clone();
                arguments[1] = own;
                for more in number + 1..6 {
                    arguments[more + 1 - number] = argument(self, more);
                }
                argument(self, number)
            }
            Starts::Object => {
                let state = self.load(&argument(self, 1), 8);
                let table = self.load(&state, 8);
                let run = table.map(|value| value.plus_number(16));
                arguments[0] = state;
                self.load(&run, 8)
            }
        };
        let many = self.hot || matches!(starts, Starts::Parallel(_));
        let mut frames = self.frames.clone();
        if let Some(frame) = frames.last_mut() {
            frame.call = site;
            frame.at_call = self.stack_pointers();
        }
        let way = self.way(instruction);
        let first = self.frames.first().filter(|_| self.errand.run == 0);
        let top = first.map(|frame| frame.function);
        let mut found = false;
        for value in routine.all() {
            let entry = value.as_address();
            let Some(entry) = entry.filter(|entry| self.world.ground.is_code(*entry)) else {
                continue;
            };
            found = true;
            self.log.starts.push(Start {
                way,
                site,
                entry: Svma(entry),
                arguments: arguments.clone(),
                memory: self.state.memory.clone(),
                many,
                frames: frames.clone(),
                top,
                beside: self.state.lives.ways(),
            });
        }
        if !found {
            self.log.unknown.push(site);
        }
        self.state.start(way);
        self.state.lives.begin(way, many);
        self.begins(starts, way);
        self.state
            .behind_call(Value::something(Lineage::OTHER).into());
    }
}
