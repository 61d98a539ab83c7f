//! The code of one function in the order in which its blocks are run.

use hitm_model::SvmaRange;
use iced_x86::{FlowControl, Instruction, InstructionInfoFactory};
use rustc_hash::FxHashMap;

use crate::program::circles::{Blocks, components};
use crate::program::flow::{Flow, is_jump};

/// One function.
#[derive(Debug)]
pub(super) struct Body {
    pub(super) range: SvmaRange,
    pub(super) code: Vec<Instruction>,
    /// In how many loops each instruction is.
    pub(super) depth: Vec<u8>,
    pub(super) blocks: Vec<Block>,
    /// What is run in turn: blocks, or all blocks of a loop.
    pub(super) parts: Vec<Part>,
    /// Whether it may return to its caller, or has a loop, in which a thread may spend its time.
    pub(super) is_followed: bool,
}

#[derive(Debug)]
pub(super) struct Block {
    /// First instruction, and the one behind the last.
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) next: Vec<u32>,
    /// Its place in the order.
    pub(super) rank: u32,
    /// Its part.
    pub(super) part: u32,
}

#[derive(Debug)]
pub(super) struct Part {
    pub(super) blocks: Vec<u32>,
    pub(super) cyclic: bool,
}

impl Body {
    pub(super) fn read(range: SvmaRange, bytes: &[u8], info: &mut InstructionInfoFactory) -> Self {
        let flow = Flow::read(range, bytes, info);
        if flow.code.is_empty() {
            return Self {
                range,
                code: Vec::new(),
                depth: Vec::new(),
                blocks: Vec::new(),
                parts: Vec::new(),
                is_followed: false,
            };
        }
        let found = Blocks::of(&flow.code, |ip| flow.at(ip));
        let order = order(&found.next);
        let circles = components(&found.next);
        let mut parts: Vec<Part> = Vec::new();
        let mut part_of_circle: FxHashMap<u32, usize> = FxHashMap::default();
        let mut part_of = vec![u32::MAX; found.next.len()];
        for &block in &order {
            let circle = circles[block as usize];
            let new = parts.len();
            let number = match circle {
                Some(circle) => *part_of_circle.entry(circle).or_insert(new),
                None => new,
            };
            if number == new {
                parts.push(Part {
                    blocks: Vec::new(),
                    cyclic: circle.is_some(),
                });
            }
            parts[number].blocks.push(block);
            part_of[block as usize] = number as u32;
        }
        let mut rank = vec![u32::MAX; found.next.len()];
        for (place, &block) in order.iter().enumerate() {
            rank[block as usize] = place as u32;
        }
        let blocks: Vec<Block> = found
            .ranges
            .iter()
            .zip(found.next)
            .enumerate()
            .map(|(number, (&(from, to), next))| Block {
                from,
                to,
                next,
                rank: rank[number],
                part: part_of[number],
            })
            .collect();
        let reached = |instruction: &&Instruction| {
            matches!(
                instruction.flow_control(),
                FlowControl::Return | FlowControl::IndirectBranch
            ) || (is_jump(instruction)
                && !range.contains(hitm_model::Svma(instruction.near_branch64())))
        };
        let is_followed =
            flow.code.iter().any(|it| reached(&it)) || parts.iter().any(|it| it.cyclic);
        Self {
            range,
            code: flow.code,
            depth: flow.depth,
            blocks,
            parts,
            is_followed,
        }
    }
}

/// The blocks that control reaches from the first one, each before those that it leads to, but for ways back.
fn order(next: &[Vec<u32>]) -> Vec<u32> {
    let mut seen = vec![false; next.len()];
    let mut order = Vec::new();
    let mut way: Vec<(u32, usize)> = vec![(0, 0)];
    seen[0] = true;
    while let Some((block, edge)) = way.pop() {
        match next[block as usize].get(edge) {
            Some(&to) => {
                way.push((block, edge + 1));
                if !std::mem::replace(&mut seen[to as usize], true) {
                    way.push((to, 0));
                }
            }
            None => order.push(block),
        }
    }
    order.reverse();
    order
}
