//! A sample becomes the accesses around it.

use std::collections::hash_map::Entry;

use hitm_binary::decode::{Block, Code, Function, InnerLoop, block_from};
use hitm_model::{
    AccessKind, Avma, Bias, Event, LineAddress, LineSize, Registers, Sample, SpaceId, Svma,
    SvmaRange, ThreadId,
};
use rustc_hash::FxHashMap;

use crate::binaries::{ModuleId, Modules};
use crate::touch::{SiteId, Touch};
use crate::world::World;

/// An instruction that accesses memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SiteKey {
    pub(crate) module: ModuleId,
    pub(crate) instruction: Svma,
    pub(crate) kind: AccessKind,
}

/// The code around an instruction pointer, decoded.
struct Decoded {
    block: Block,
    bias: Bias,
    module: ModuleId,
    /// The site of each of the block's operands.
    sites: Vec<SiteId>,
}

/// An access and the operand that it came from.
pub(crate) struct Access<'a> {
    pub(crate) line: LineAddress,
    pub(crate) touch: Touch,
    pub(crate) context: Context<'a>,
}

/// Where in the code an access was seen: enough to ask for the types of its pointers.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) module: ModuleId,
    pub(crate) ip: Svma,
    pub(crate) address: Avma,
    pub(crate) operand: &'a hitm_binary::decode::Operand,
    pub(crate) bias: Bias,
}

/// The operand counts that a report states as denominators.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) samples: u64,
    pub(crate) undecoded: u64,
    pub(crate) operands: u64,
    pub(crate) unresolved: u64,
    pub(crate) unmapped: u64,
}

/// Turns samples into accesses; decodes each place in the code once.
pub(crate) struct Decoder<'d, 's> {
    pub(crate) modules: Modules<'d, 's>,
    pub(crate) sites: Vec<SiteKey>,
    pub(crate) counts: Counts,
    site_ids: FxHashMap<SiteKey, SiteId>,
    /// Index into `decoded`; `None` is code that cannot be decoded.
    places: FxHashMap<(SpaceId, Avma), Option<u32>>,
    by_svma: FxHashMap<(ModuleId, Svma, Bias), Option<u32>>,
    decoded: Vec<Decoded>,
    /// Functions with their branch targets, by their start.
    functions: FxHashMap<(ModuleId, Svma), Option<Function<'d>>>,
    loops: FxHashMap<(ModuleId, Svma), Option<InnerLoop>>,
    line_size: LineSize,
}

impl<'d, 's> Decoder<'d, 's> {
    pub(crate) fn new(modules: Modules<'d, 's>, line_size: LineSize) -> Self {
        Self {
            modules,
            sites: Vec::new(),
            counts: Counts::default(),
            site_ids: FxHashMap::default(),
            places: FxHashMap::default(),
            by_svma: FxHashMap::default(),
            decoded: Vec::new(),
            functions: FxHashMap::default(),
            loops: FxHashMap::default(),
            line_size,
        }
    }

    /// Goes back to the start of the recording; what was decoded stays decoded.
    pub(crate) fn rewind(&mut self) {
        self.places.clear();
        self.counts = Counts::default();
    }

    /// Forgets what a new mapping of code makes wrong, or can be decoded only now.
    pub(crate) fn note(&mut self, event: &Event) {
        if let Event::Mapping { space, mapping, .. } = event
            && mapping.executable
        {
            self.places
                .retain(|(at, ip), _| at != space || !mapping.range.contains(*ip));
        }
    }

    /// Calls `each` with every access of a sample, line by line.
    pub(crate) fn accesses(
        &mut self,
        world: &World,
        sample: &Sample,
        mut each: impl FnMut(SpaceId, Access<'_>),
    ) {
        let Some(thread) = world.threads.get(&sample.thread) else {
            return;
        };
        let Some(space) = world.spaces.get(&thread.space) else {
            return;
        };
        self.counts.samples += 1;
        let ip = sample.registers.ip;
        let place = match self.places.get(&(thread.space, ip)) {
            Some(place) => *place,
            None => {
                let place = self.decode(space, ip);
                self.places.insert((thread.space, ip), place);
                place
            }
        };
        let Some(decoded) = place.map(|index| &self.decoded[index as usize]) else {
            self.counts.undecoded += 1;
            return;
        };
        self.counts.unresolved += u64::from(decoded.block.unresolved);
        self.counts.operands +=
            u64::from(decoded.block.unresolved) + decoded.block.operands.len() as u64;
        let mut mapped_at: Option<hitm_model::AvmaRange> = None;
        for (operand, site) in decoded.block.operands.iter().zip(&decoded.sites) {
            let Some(range) = operand.resolve(&sample.registers, decoded.bias, thread.fs_base)
            else {
                self.counts.unresolved += 1;
                continue;
            };
            let address = range.start;
            if !mapped_at.is_some_and(|range| range.contains(address)) {
                let Some(mapping) = space.at(address) else {
                    self.counts.unmapped += 1;
                    continue;
                };
                mapped_at = Some(mapping.range);
            }
            for (line, range) in self.line_size.parts(address, operand.size) {
                let touch = Touch {
                    at: sample.at,
                    thread: sample.thread,
                    cpu: sample.cpu,
                    range,
                    kind: operand.kind,
                    site: *site,
                };
                let context = Context {
                    module: decoded.module,
                    ip: decoded.bias.to_svma(ip),
                    address,
                    operand,
                    bias: decoded.bias,
                };
                each(
                    thread.space,
                    Access {
                        line,
                        touch,
                        context,
                    },
                );
            }
        }
    }

    /// Which binary an instruction is in, and where.
    pub(crate) fn place_of(
        &mut self,
        world: &World,
        thread: ThreadId,
        ip: Avma,
    ) -> Option<(ModuleId, Svma)> {
        let space = world.spaces.get(&world.threads.get(&thread)?.space)?;
        let (module, bias) = self.module_at(space, ip)?;
        Some((module, bias.to_svma(ip)))
    }

    /// Where the function of an instruction starts, in the process.
    pub(crate) fn function_of(
        &mut self,
        world: &World,
        thread: ThreadId,
        ip: Avma,
    ) -> Option<Avma> {
        let space = world.spaces.get(&world.threads.get(&thread)?.space)?;
        let (module, bias) = self.module_at(space, ip)?;
        let image = &self.modules.get(module).image;
        Some(bias.to_avma(image.function_at(bias.to_svma(ip))?.start))
    }

    /// The innermost loop around an instruction.
    pub(crate) fn inner_loop(&mut self, (module, ip): (ModuleId, Svma)) -> Option<InnerLoop> {
        if let Some(known) = self.loops.get(&(module, ip)) {
            return known.clone();
        }
        let found = self
            .function(module, ip)
            .and_then(|function| function.inner_loop_at(ip));
        self.loops.insert((module, ip), found.clone());
        found
    }

    /// The binary that is mapped at an instruction, and where it was loaded to.
    pub(crate) fn module_at(
        &mut self,
        space: &crate::world::Space,
        ip: Avma,
    ) -> Option<(ModuleId, Bias)> {
        let (path, build_id) = space.at(ip)?.file()?;
        let module = self.modules.find(path, build_id)?;
        let image = &self.modules.get(module).image;
        let bias = image.bias_of_mappings(space.of_file(path))?;
        Some((module, bias))
    }

    fn decode(&mut self, space: &crate::world::Space, ip: Avma) -> Option<u32> {
        let (module, bias) = self.module_at(space, ip)?;
        let svma = bias.to_svma(ip);
        if let Some(known) = self.by_svma.get(&(module, svma, bias)) {
            return *known;
        }
        let decoded = self.decode_svma(module, svma, bias);
        self.by_svma.insert((module, svma, bias), decoded);
        decoded
    }

    fn decode_svma(&mut self, module: ModuleId, ip: Svma, bias: Bias) -> Option<u32> {
        let block = self.block(module, ip)?;
        let sites = block
            .operands
            .iter()
            .map(|operand| {
                let key = SiteKey {
                    module,
                    instruction: operand.instruction,
                    kind: operand.kind,
                };
                *self.site_ids.entry(key).or_insert_with(|| {
                    self.sites.push(key);
                    SiteId(self.sites.len() as u32 - 1)
                })
            })
            .collect();
        self.decoded.push(Decoded {
            block,
            bias,
            module,
            sites,
        });
        u32::try_from(self.decoded.len() - 1).ok()
    }

    /// The function of an instruction, read once.
    fn function(&mut self, module: ModuleId, ip: Svma) -> Option<&Function<'d>> {
        let image = &self.modules.get(module).image;
        let bounds = image.function_at(ip)?;
        let function = match self.functions.entry((module, bounds.start)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Function::in_image(image, ip)),
        };
        function.as_ref()
    }

    /// The code that is certainly executed around an instruction: backwards too where the function's start is known.
    fn block(&mut self, module: ModuleId, ip: Svma) -> Option<Block> {
        if let Some(Ok(block)) = self
            .function(module, ip)
            .map(|function| function.block_at(ip))
        {
            return Some(block);
        }
        let image = &self.modules.get(module).image;
        let bytes = (1..=UNBOUNDED)
            .rev()
            .step_by(16)
            .find_map(|length| image.code(SvmaRange::new(ip, ip.wrapping_add(length))))?;
        block_from(Code { start: ip, bytes }).ok()
    }
}

/// Bytes that are decoded where a function's bounds are not known.
const UNBOUNDED: u64 = 256;

/// The value that an operand's base register had at its instruction.
pub(crate) fn base_value(context: &Context<'_>, registers: &Registers) -> Option<Avma> {
    let (_, form) = context.operand.base.as_ref()?;
    form.resolve(registers, context.bias, None)
}
