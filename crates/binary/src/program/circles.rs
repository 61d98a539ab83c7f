//! Which instructions control can come back to: the strongly connected components of a function.
//!
//! A pass in depth first order that keeps, for each block, the earliest open block that it can reach (Tarjan's way),
//! with a stack of its own: functions may have a hundred thousand blocks in a row.

use hitm_model::{Svma, SvmaRange};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use super::flow::is_jump;

/// For each instruction the number of its component, or `None` where control cannot come back to it.
pub(super) fn of(code: &[Instruction], at: impl Fn(u64) -> Option<usize>) -> Vec<Option<u32>> {
    let blocks = Blocks::of(code, at);
    let components = components(&blocks.next);
    let mut circles = vec![None; code.len()];
    for (number, &(from, to)) in blocks.ranges.iter().enumerate() {
        circles[from..to].fill(components[number]);
    }
    circles
}

/// Whether control can come from one instruction of a function to another one, without leaving it.
pub(super) fn may_follow(range: SvmaRange, bytes: &[u8], first: Svma, second: Svma) -> bool {
    let mut decoder = Decoder::with_ip(64, bytes, range.start.0, DecoderOptions::NONE);
    let code: Vec<Instruction> = decoder.iter().collect();
    let at = |ip: u64| code.binary_search_by_key(&ip, Instruction::ip).ok();
    let (Some(first), Some(second)) = (at(first.0), at(second.0)) else {
        return true;
    };
    let blocks = Blocks::of(&code, at);
    let block_of = |number: usize| {
        let after = blocks.ranges.partition_point(|&(from, _)| from <= number);
        after.saturating_sub(1)
    };
    let (from, to) = (block_of(first), block_of(second));
    if from == to && first <= second {
        return true;
    }
    let mut seen = vec![false; blocks.next.len()];
    let mut open: Vec<usize> = blocks.next[from].iter().map(|&it| it as usize).collect();
    while let Some(block) = open.pop() {
        if block == to {
            return true;
        }
        if !std::mem::replace(&mut seen[block], true) {
            open.extend(blocks.next[block].iter().map(|&it| it as usize));
        }
    }
    false
}

/// Straight stretches of code, and where each goes on.
pub(super) struct Blocks {
    /// First instruction, and the one behind the last.
    pub(super) ranges: Vec<(usize, usize)>,
    pub(super) next: Vec<Vec<u32>>,
}

impl Blocks {
    pub(super) fn of(code: &[Instruction], at: impl Fn(u64) -> Option<usize>) -> Self {
        let mut first = vec![false; code.len() + 1];
        first[0] = true;
        let mut reached = vec![false; code.len() + 1];
        for (number, instruction) in code.iter().enumerate() {
            if is_jump(instruction)
                && let Some(target) = at(instruction.near_branch64())
            {
                first[target] = true;
                reached[target] = true;
            }
            first[number + 1] |= ends_block(instruction);
        }
        let starts: Vec<usize> = (0..code.len()).filter(|&number| first[number]).collect();
        let ends = starts.iter().skip(1).copied().chain([code.len()]);
        let ranges: Vec<(usize, usize)> = starts.iter().copied().zip(ends).collect();
        let block_at = |number: usize| starts.binary_search(&number).ok().map(|block| block as u32);
        // Where a jump through a table goes is not known: to what nothing else goes to.
        let by_table: Vec<u32> = ranges
            .iter()
            .skip(1)
            .filter(|(from, _)| !reached[*from] && !falls_through(&code[*from - 1]))
            .filter_map(|(from, _)| block_at(*from))
            .collect();
        let next = ranges
            .iter()
            .map(|&(_, to)| {
                let last = &code[to - 1];
                if last.flow_control() == FlowControl::IndirectBranch {
                    return by_table.clone();
                }
                let mut next = Vec::new();
                if falls_through(last) {
                    next.extend(block_at(to));
                }
                if is_jump(last) {
                    next.extend(at(last.near_branch64()).and_then(block_at));
                }
                next
            })
            .collect();
        Self { ranges, next }
    }
}

fn ends_block(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Call | FlowControl::IndirectCall
    )
}

fn falls_through(instruction: &Instruction) -> bool {
    !matches!(
        instruction.flow_control(),
        FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Return
            | FlowControl::Exception
    )
}

/// For each block the number of its component, or `None` where control cannot come back to it.
pub(super) fn components(next: &[Vec<u32>]) -> Vec<Option<u32>> {
    const NEW: u32 = u32::MAX;
    let mut order = vec![NEW; next.len()];
    let mut lowest = vec![0u32; next.len()];
    let mut is_open = vec![false; next.len()];
    let mut open: Vec<usize> = Vec::new();
    let mut components = vec![None; next.len()];
    let mut way: Vec<(usize, usize)> = Vec::new();
    let mut count = 0;
    for start in 0..next.len() {
        if order[start] != NEW {
            continue;
        }
        way.push((start, 0));
        while let Some((block, edge)) = way.pop() {
            if edge == 0 {
                order[block] = count;
                lowest[block] = count;
                count += 1;
                open.push(block);
                is_open[block] = true;
            }
            if let Some(&to) = next[block].get(edge) {
                way.push((block, edge + 1));
                let to = to as usize;
                if order[to] == NEW {
                    way.push((to, 0));
                } else if is_open[to] {
                    lowest[block] = lowest[block].min(order[to]);
                }
                continue;
            }
            if lowest[block] == order[block] {
                let from = open.iter().rposition(|&it| it == block).unwrap_or(0);
                let members = open.split_off(from);
                let circle = members.len() > 1 || next[block].contains(&(block as u32));
                for member in members {
                    is_open[member] = false;
                    components[member] = circle.then_some(order[block]);
                }
            }
            if let Some(&(before, _)) = way.last() {
                lowest[before] = lowest[before].min(lowest[block]);
            }
        }
    }
    components
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_on_a_circle_are_together_and_others_alone() {
        // 0 → 1 → 2 → 1, 2 → 3; 4 → 3 comes from nowhere.
        let next = [vec![1], vec![2], vec![1, 3], vec![], vec![3]];
        let found = components(&next);
        assert_eq!(found[1], found[2]);
        assert!(found[1].is_some());
        assert_eq!([found[0], found[3], found[4]], [None, None, None]);
    }

    #[test]
    fn a_block_that_jumps_to_itself_is_a_circle() {
        let found = components(&[vec![0, 1], vec![]]);
        assert!(found[0].is_some() && found[1].is_none());
    }
}
