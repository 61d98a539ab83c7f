//! Where control may enter a function from afar.
//!
//! Compilers move unlikely parts and landing pads of exceptions away from their function, and hand-written code shares
//! tails between functions. All of these come back by a `jmp` or `jcc` with a 32-bit distance. Calls lead to functions,
//! but hand-written code has some that the unwinder's tables count as a part of another one.

use hitm_model::{Svma, SvmaRange};

/// A target of jumps or calls.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LongJump {
    /// The target.
    pub(crate) to: u64,
    /// The instruction that goes there, if there is only one.
    pub(crate) only_from: Option<u64>,
}

/// The targets of all jumps and calls of a file with a 32-bit distance, in order.
///
/// All bytes that look like one count, wherever instructions begin: a few targets more only make blocks shorter, and
/// none is missed behind bytes that are no code.
#[derive(Clone, Debug)]
pub(crate) struct LongJumps(Vec<LongJump>);

impl LongJumps {
    /// From a file's executable segments.
    pub(crate) fn new<'d>(segments: impl Iterator<Item = (Svma, &'d [u8])>) -> Self {
        let segments: Vec<_> = segments.collect();
        let mut targets = Vec::new();
        for &(start, bytes) in &segments {
            for (at, window) in bytes.windows(6).enumerate() {
                let (len, distance) = match *window {
                    [0xe8 | 0xe9, a, b, c, d, _] => (5, [a, b, c, d]),
                    [0x0f, 0x80..=0x8f, a, b, c, d] => (6, [a, b, c, d]),
                    _ => continue,
                };
                let distance = i64::from(i32::from_le_bytes(distance)).cast_unsigned();
                let from = start.wrapping_add(at as u64);
                targets.push(LongJump {
                    to: from.wrapping_add(len).wrapping_add(distance).0,
                    only_from: Some(from.0),
                });
            }
        }
        targets.retain(|target| {
            segments.iter().any(|(start, bytes)| {
                let offset = target.to.checked_sub(start.0);
                offset.is_some_and(|offset| offset < bytes.len() as u64)
            })
        });
        targets.sort_unstable();
        targets.dedup_by(|next, kept| {
            let same = next.to == kept.to;
            if same {
                kept.only_from = None;
            }
            same
        });
        Self(targets)
    }

    /// Those that are in a range.
    pub(crate) fn within(&self, range: SvmaRange) -> &[LongJump] {
        let from = self.0.partition_point(|target| target.to < range.start.0);
        let to = self.0.partition_point(|target| target.to < range.end.0);
        self.0.get(from..to).unwrap_or_default()
    }
}
