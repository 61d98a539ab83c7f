//! Words in memory as measures of progress.

use hitm_model::{Reading, Window, Word};

use super::steps::{Step, WindowSteps};

/// The steps of the word with this number in the group.
pub(super) fn steps(windows: &[&Window], word: &Word, number: usize) -> Vec<WindowSteps> {
    windows
        .iter()
        .map(|window| WindowSteps {
            placement: window.placement,
            steps: window
                .words
                .get(number)
                .map_or_else(Vec::new, |readings| steps_of(readings, word.size)),
        })
        .collect()
}

/// From reading to reading; those between which the thread hardly ran tell little of its speed and go with the next.
fn steps_of(readings: &[Reading], size: u8) -> Vec<Step> {
    let (Some(first), Some(last)) = (readings.first(), readings.last()) else {
        return Vec::new();
    };
    let mean = last.ran.since(first.ran).0 / (readings.len() as u64).max(1);
    let mut steps = Vec::new();
    let mut from = first;
    for reading in &readings[1..] {
        let ran = reading.ran.since(from.ran);
        if ran.0 * 2 < mean || ran.0 == 0 {
            continue;
        }
        steps.push(Step {
            moved: difference(from.value, reading.value, size),
            ran,
            wall: reading.at.since(from.at),
        });
        from = reading;
    }
    steps
}

/// From one value to another of a word that wraps.
fn difference(from: u64, to: u64, size: u8) -> f64 {
    let unused = 64 - 8 * u32::from(size.clamp(1, 8));
    let difference = to.wrapping_sub(from) << unused;
    (difference.cast_signed() >> unused) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_wrap_at_their_size() {
        for (from, to, size, want) in [
            (10, 14, 8, 4.0),
            (14, 10, 8, -4.0),
            (0xffff_fffe, 3, 4, 5.0),
            (0xffff_fffe, 3, 8, -4_294_967_291.0),
            (u64::MAX, 0, 8, 1.0),
            (250, 3, 1, 9.0),
        ] {
            assert_eq!(difference(from, to, size), want, "{from} {to} {size}");
        }
    }
}
