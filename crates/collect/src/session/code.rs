//! What the code around a sampled instruction accesses, remembered per instruction.

use std::rc::Rc;

use hitm_binary::decode::{self, Block, Code};
use hitm_model::{Avma, AvmaRange, Pid, SpaceId, Svma};
use rustc_hash::FxHashMap;

use super::{
    module::{self, Module},
    space::Mappings,
    world::World,
};

/// Instructions that are remembered, and modules; beyond that all are forgotten and read anew.
const MOST_BLOCKS: usize = 8192;
const MOST_MODULES: usize = 512;

/// Longer functions are decoded from the instruction on only.
const LONGEST_FUNCTION: u64 = 64 << 10;

/// How far the code behind an instruction is read when its function is not known.
const AHEAD: usize = 256;

/// Decoded code of all address spaces. Addresses in it are the process's own, so the bias of a block is 0.
#[derive(Debug, Default)]
pub(crate) struct CodeCache {
    blocks: FxHashMap<(SpaceId, Avma), Option<Rc<Block>>>,
    modules: FxHashMap<(SpaceId, Avma), Option<Rc<Module>>>,
}

impl CodeCache {
    /// The block around `ip`; `None` if it cannot be read or decoded.
    pub(crate) fn block<W: World>(
        &mut self,
        world: &W,
        (space, pid): (SpaceId, Pid),
        mappings: &Mappings,
        ip: Avma,
    ) -> Option<Rc<Block>> {
        if let Some(known) = self.blocks.get(&(space, ip)) {
            return known.clone();
        }
        let module = self.module(world, (space, pid), mappings, ip);
        let function = module.and_then(|module| module.function_at(world, pid, ip));
        let block = function
            .filter(|function| function.len() <= LONGEST_FUNCTION)
            .and_then(|function| block_in(world, pid, function, ip))
            .or_else(|| block_from(world, pid, ip))
            .map(Rc::new);
        if self.blocks.len() >= MOST_BLOCKS {
            self.blocks.clear();
        }
        self.blocks.insert((space, ip), block.clone());
        block
    }

    /// The module that has `address`.
    pub(crate) fn module<W: World>(
        &mut self,
        world: &W,
        (space, pid): (SpaceId, Pid),
        mappings: &Mappings,
        address: Avma,
    ) -> Option<Rc<Module>> {
        let mapping = mappings.at(address)?;
        let key = (space, mapping.range.start);
        if let Some(known) = self.modules.get(&key) {
            return known.clone();
        }
        let module = Module::find(world, pid, mappings, mapping).map(Rc::new);
        if self.modules.len() >= MOST_MODULES {
            self.modules.clear();
        }
        self.modules.insert(key, module.clone());
        module
    }

    /// Forgets what is in a range: something else is mapped there now.
    pub(crate) fn forget(&mut self, space: SpaceId, range: AvmaRange) {
        let gone = |key: &(SpaceId, Avma)| key.0 == space && range.contains(key.1);
        self.modules.retain(|key, _| !gone(key));
        self.blocks.retain(|key, _| !gone(key));
    }
}

fn block_in<W: World>(world: &W, pid: Pid, function: AvmaRange, ip: Avma) -> Option<Block> {
    let bytes = module::read(world, pid, function.start, function.len() as usize)?;
    let code = Code {
        start: Svma(function.start.0),
        bytes: &bytes,
    };
    decode::block_at(code, Svma(ip.0)).ok()
}

fn block_from<W: World>(world: &W, pid: Pid, ip: Avma) -> Option<Block> {
    let mut bytes = vec![0; AHEAD];
    let len = world.read(pid, ip, &mut bytes);
    let code = Code {
        start: Svma(ip.0),
        bytes: bytes.get(..len)?,
    };
    decode::block_from(code).ok()
}
