//! Loops that are entered at their condition.
//!
//! Compilers put the condition of a `while` loop behind its body and jump there first:
//!
//! ```text
//!     jmp  condition
//! body:
//!     lock add qword ptr [rsi], 1
//! condition:
//!     cmp  byte ptr [rdi], 0
//!     je   body
//! ```
//!
//! The condition is a branch target, so a block there would begin with it, and the access that the thread just waited
//! for, the last one of the body, would never be seen. But who jumps in from outside is at the condition for one
//! instant, without having waited; who waited for the body's last instruction is there all that time.

/// A direct branch or call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Branch {
    /// The instruction.
    pub(super) from: u64,
    /// Where it goes.
    pub(super) to: u64,
    pub(super) kind: BranchKind,
}

/// Whether a branch is always taken, and comes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BranchKind {
    /// `jmp`.
    Jump,
    /// `jcc`, `loop` and the like.
    Conditional,
    /// `call` and `xbegin`.
    Other,
}

/// Where only jumps into loops go, in order: each is reached by an unconditional jump over a loop's body, else only by
/// falling through from that body.
///
/// A jump at `s` to `c` enters a loop if a branch at `b ≥ c` goes back to `t` with `s < t < c`: the body is `t..c`, and
/// the jump is outside. A jump over the other half of an `if` has no such branch back.
pub(super) fn conditions_of_loops(branches: &[Branch]) -> Vec<u64> {
    let mut branches = branches.to_vec();
    branches.sort_unstable_by_key(|branch| branch.to);
    let mut conditions = Vec::new();
    for same in branches.chunk_by(|a, b| a.to == b.to) {
        let Some(&Branch { to: condition, .. }) = same.first() else {
            continue;
        };
        let enters = |branch: &Branch| branch.kind == BranchKind::Jump && branch.from < condition;
        if !same.iter().all(enters) {
            continue;
        }
        let nearest = same.iter().map(|branch| branch.from).max().unwrap_or(0);
        let from = branches.partition_point(|branch| branch.to <= nearest);
        let to = branches.partition_point(|branch| branch.to < condition);
        let mut into_body = branches.get(from..to).unwrap_or_default().iter();
        if into_body.any(|back| back.from >= condition && back.kind != BranchKind::Other) {
            conditions.push(condition);
        }
    }
    conditions
}
