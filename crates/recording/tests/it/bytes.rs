//! The bytes on disk, so that an accidental change of the format is noticed.

use std::fmt::Write;

use hitm_recording::VERSION;

use crate::events::{kind, one_of_each, sample};
use crate::round_trip::write;

const HEADER: usize = 12;
const BLOCK_HEADER: usize = 16;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Old recordings must stay readable: if this fails, do not change the expectation but the model. New events go to
/// the end of `Event` and of this list, and raise `VERSION`.
#[test]
fn every_event_keeps_its_encoding() {
    let mut all = String::new();
    for event in one_of_each() {
        let file = write(std::slice::from_ref(&event));
        // The length of each of these takes one byte.
        let bytes = &file[HEADER + BLOCK_HEADER + 1..];
        writeln!(all, "{} {}", kind(&event), hex(bytes)).unwrap();
    }
    assert_eq!(all, EXPECTED);
    assert_eq!(VERSION, 2);
}

const EXPECTED: &str = "\
Machine 00067838365f363407416e792043505503362e3102014001
Run 010002062e2f70726f67022d7807808080808020ac0205302e312e30
Sampler 0201c0843d0190cb01000105455045524d0106737461746963
SpaceBorn 0301070100ac02
Mapping 0401ac028020806000062f62696e2f7880200102abcd0100
ThreadBorn 050201d20906776f726b6572ac02
ThreadNamed 060204696f2d31ac02
ThreadEnded 0702ac02
Sample 080280a094a58d1d01b0a2d5aad5aa1590f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f1190f1d9a2a3e21ffeffffffffffffffff0190f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f90f1d9a2a3e21f
ThreadPointer 0902c08e808080e01f
Stack 0a0280208060
Frames 0b02ac0201b4248080f0ff070001
Lost 0cac0205
ChildEnded 0d070116
Ended 0eac0203086e6f207370616365
Group 0f03020204010102908001080104646f6e650104776f726b0180208060020001020880a3c34701000000000000e03f000000000000f03f
Window 100301ac02900301013c2801020101ac021ee8070100
GroupEnded 1103040d6f6e652070726f636573736f7250
";

#[test]
fn the_framing_is_what_the_documentation_says() {
    let event = sample(0);
    let file = write(std::slice::from_ref(&event));
    assert_eq!(hex(&file[..HEADER]), "4849544d0d0a1a0a02000000");
    let payload = &file[HEADER + BLOCK_HEADER..];
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    let start = [b"\xf5BLK", &length[..]].concat();
    let checks = [crc32fast::hash(&start), crc32fast::hash(payload)];
    let header = [start, checks.map(u32::to_le_bytes).concat()].concat();
    assert_eq!(hex(&file[HEADER..][..BLOCK_HEADER]), hex(&header));
    assert_eq!(usize::from(payload[0]), payload.len() - 1);
}
