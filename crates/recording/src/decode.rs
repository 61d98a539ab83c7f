//! From the bytes of one event to the event.
//!
//! Nearly all events are samples, and a sample is nineteen variable-length integers: those are decoded by hand, in
//! the same encoding, because a long recording has millions of them. All other events go through serde.

use hitm_model::{Avma, Event, Nanos, Registers, Sample, ThreadId};

/// The index of [`Event::Sample`] among the events, which is how postcard writes a variant.
const SAMPLE: u8 = 8;

/// The event in the first `length` of `bytes`, which must be nothing but it; `None` where it is of an unknown kind or
/// form, or where there are fewer bytes. The bytes behind it only let the decoder look ahead.
pub(crate) fn event(bytes: &[u8], length: usize) -> Option<Event> {
    if let [SAMPLE, rest @ ..] = bytes {
        return sample(rest, length.checked_sub(1)?).map(Event::Sample);
    }
    match postcard::take_from_bytes(bytes.get(..length)?) {
        Ok((event, [])) => Some(event),
        _ => None,
    }
}

fn sample(bytes: &[u8], length: usize) -> Option<Sample> {
    let mut at = Cursor { bytes };
    let sample = Sample {
        thread: ThreadId(at.u32()?),
        at: Nanos(at.u64()?),
        cpu: at.u32()?,
        registers: Registers {
            ip: Avma(at.u64()?),
            gpr: {
                let mut gpr = [0; 16];
                for register in &mut gpr {
                    *register = at.u64()?;
                }
                gpr
            },
        },
    };
    (bytes.len() - at.bytes.len() == length).then_some(sample)
}

/// Takes integers from the front of a slice.
pub(crate) struct Cursor<'a> {
    /// What is left.
    pub(crate) bytes: &'a [u8],
}

impl Cursor<'_> {
    /// Seven bits a byte, the lowest first; the high bit says that another byte follows.
    #[inline]
    pub(crate) fn u64(&mut self) -> Option<u64> {
        // The lengths of a sample's integers are hard to predict, so up to eight bytes are taken without a branch.
        let Some(chunk) = self.bytes.first_chunk() else {
            return self.u64_by_bytes();
        };
        let word = u64::from_le_bytes(*chunk);
        let stops = !word & 0x8080_8080_8080_8080;
        if stops == 0 {
            return self.u64_by_bytes();
        }
        // Everything up to the lowest byte whose high bit is clear.
        let taken = word & (stops ^ (stops - 1));
        self.bytes = &self.bytes[stops.trailing_zeros() as usize / 8 + 1..];
        let sevens = taken & 0x7f7f_7f7f_7f7f_7f7f;
        let pairs = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
        let fours = pairs & 0x0000_3fff_0000_3fff | (pairs & 0x3fff_0000_3fff_0000) >> 2;
        Some(fours & 0x0fff_ffff | (fours & 0x0fff_ffff_0000_0000) >> 4)
    }

    /// The same one byte after the other: for the longest ones and at the end of the bytes.
    #[cold]
    fn u64_by_bytes(&mut self) -> Option<u64> {
        let mut value = 0;
        for (i, &byte) in self.bytes.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.bytes = &self.bytes[i + 1..];
                // The tenth byte has room for the 64th bit only.
                return (i < 9 || byte <= 1).then_some(value);
            }
        }
        None
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        // postcard refuses a longer form than five bytes, even of a small number.
        let before = self.bytes.len();
        let value = self.u64()?;
        if before - self.bytes.len() > 5 {
            return None;
        }
        u32::try_from(value).ok()
    }
}
