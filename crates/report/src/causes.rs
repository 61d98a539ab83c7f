//! What slows threads down that share no line: each candidate with its evidence and what to do.

use hitm_model::{Cause, LineSize};

use crate::words::{count, size};

/// How far apart threads that walk memory should be, in bytes: where it was tried, what cost 1.7× at 512 bytes cost
/// nothing at this distance.
const BEYOND_PREFETCH: u64 = 2048;

pub(crate) fn cause(cause: &Cause, line_size: LineSize) -> String {
    match cause {
        Cause::Prefetcher {
            below,
            above,
            gap,
            towards,
        } => {
            let takes = match towards {
                Some(true) => {
                    "one walks towards the other, and its prefetches take the other's lines"
                }
                Some(false) => {
                    "neither was seen to walk towards the other, but prefetches may take the other's lines"
                }
                None => "and prefetches of one may take the other's lines",
            };
            let lines = lines_apart(*gap, line_size);
            format!(
                "the hardware prefetcher: memory of `{above}` lies {} above that of `{below}`, {takes}; separate them \
                 by {} lines ({})",
                size(*gap),
                count(lines),
                size(lines.saturating_mul(line_size.bytes().into())),
            )
        }
        Cause::Bandwidth { bytes_per_second } => format!(
            "memory bandwidth: together they read or write at least {:.1} GB/s, as sampled; touch less memory, or use \
             more of each line",
            bytes_per_second / 1e9
        ),
        Cause::Capacity { bytes } => format!(
            "cache capacity: together they use about {}, estimated from the samples; work on smaller parts at a time",
            size(*bytes)
        ),
    }
}

/// Lines to separate threads by that are `gap` bytes apart now: more than that in any case.
fn lines_apart(gap: u64, line_size: LineSize) -> u64 {
    gap.saturating_mul(2)
        .max(BEYOND_PREFETCH)
        .div_ceil(u64::from(line_size.bytes()))
}
