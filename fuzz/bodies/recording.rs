//! A recording of any bytes is read to its end without a panic, and what is read can be written and read again.

use hitm_recording::{Writer, read_slice};

/// One input.
pub(crate) fn run(bytes: &[u8]) {
    let Ok((events, damage)) = read_slice(bytes) else {
        return;
    };
    let _ = damage.caveats();
    let mut writer = Writer::new(Vec::new()).expect("a vector takes everything");
    for event in &events {
        // What is too large for a block is refused, not cut.
        if writer.event(event).is_err() {
            return;
        }
    }
    writer.flush().expect("a vector takes everything");
    let again = writer.into_inner().expect("a vector takes everything");
    let (read, _) = read_slice(&again).expect("what we wrote is readable");
    // A float that is no number is not equal to itself, so their text is compared.
    assert_eq!(format!("{events:?}"), format!("{read:?}"));
}
