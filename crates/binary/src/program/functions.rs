//! All functions of a file: from the unwinder's tables, which stripped binaries have as well, and from symbols.

use hitm_model::{Svma, SvmaRange};

use crate::image::Image;

/// Where the functions are, in order, each byte in one of them at most.
pub(super) fn all(image: &Image<'_>) -> Vec<SvmaRange> {
    let mut ranges = image.function_ranges();
    let code = image.code_ranges();
    ranges.retain(|range| {
        !range.is_empty()
            && code
                .iter()
                .any(|segment| segment.contains(range.start) && range.end <= segment.end)
    });
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut all: Vec<SvmaRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.start == range.start => last.end = range.end.min(last.end),
            // A symbol inside of a function: another way in, or a part of it.
            Some(last) if range.start < last.end => {
                if range.end > last.end {
                    let from = last.end;
                    all.push(SvmaRange::new(from, range.end));
                }
            }
            _ => all.push(range),
        }
    }
    all
}

/// The number of the function that holds an address.
pub(super) fn at(functions: &[SvmaRange], address: Svma) -> Option<usize> {
    let after = functions.partition_point(|range| range.start <= address);
    let number = after.checked_sub(1)?;
    functions[number].contains(address).then_some(number)
}
