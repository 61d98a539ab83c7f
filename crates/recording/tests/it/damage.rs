//! Damaged, cut and foreign files: what is readable is read, and nothing that was never written.

use std::io::{self, Read};

use hitm_model::{Avma, Event, Nanos, StopReason, ThreadId};
use hitm_recording::{Damage, Error, Reader, VERSION, Writer, read_slice};

use crate::events::{one_of_each, sample};
use crate::round_trip::write;

const HEADER: usize = 12;

/// A small recording of several blocks.
fn recording() -> (Vec<Event>, Vec<u8>, Vec<usize>) {
    let events = one_of_each();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut borders = vec![HEADER];
    for three in events.chunks(3) {
        for event in three {
            writer.event(event).unwrap();
        }
        writer.flush().unwrap();
        borders.push(writer.bytes() as usize);
    }
    (events, writer.into_inner().unwrap(), borders)
}

fn is_subsequence(part: &[Event], whole: &[Event]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|event| whole.any(|other| other == event))
}

#[test]
fn every_cut_leaves_the_whole_blocks_before_it() {
    let (events, file, borders) = recording();
    for cut in 0..file.len() {
        match read_slice(&file[..cut]) {
            Ok((read, damage)) => {
                let blocks = borders.iter().filter(|&&border| border <= cut).count() - 1;
                assert_eq!(read, events[..3 * blocks], "cut at {cut}");
                let has_end = read
                    .iter()
                    .any(|event| matches!(event, Event::Ended { .. }));
                assert_eq!(
                    damage.truncated,
                    !has_end || !borders.contains(&cut),
                    "cut at {cut}"
                );
                assert_eq!(damage.damaged_blocks, 0, "cut at {cut}");
            }
            Err(error) => assert!(cut < HEADER, "cut at {cut}: {error}"),
        }
    }
}

#[test]
fn every_changed_byte_costs_one_block_at_most() {
    let (events, file, borders) = recording();
    for at in 0..file.len() {
        for change in [0x01, 0x80, 0xff] {
            let mut file = file.clone();
            file[at] ^= change;
            match read_slice(&file) {
                Ok((read, damage)) => {
                    assert!(is_subsequence(&read, &events), "{change:#x} at {at}");
                    if at < HEADER {
                        assert_eq!(read, events);
                        assert!(damage.newer, "{change:#x} at {at}");
                    } else {
                        assert_eq!(read.len(), events.len() - 3, "{change:#x} at {at}");
                        let in_last = at >= borders[borders.len() - 2];
                        assert!(
                            damage.damaged_blocks == 1 || in_last && damage.truncated,
                            "{change:#x} at {at}: {damage:?}"
                        );
                    }
                }
                Err(error) => assert!(at < HEADER, "{change:#x} at {at}: {error}"),
            }
        }
    }
}

#[test]
fn bytes_that_are_left_out_or_put_in_cost_two_blocks_at_most() {
    let (events, file, borders) = recording();
    for at in HEADER..file.len() {
        let without = [&file[..at], &file[at + 1..]].concat();
        let (read, damage) = read_slice(&without).unwrap();
        assert!(is_subsequence(&read, &events), "without {at}");
        // The length of the block is one too long now, so the marker behind it is missed.
        assert!(read.len() >= events.len() - 6, "without {at}: {damage:?}");
    }
    // Between two blocks, none is lost.
    for &border in &borders[..borders.len() - 1] {
        let (before, after) = file.split_at(border);
        let (read, damage) =
            read_slice(&[before, b"\xf5BL garbage \xf5BLK\xf5", after].concat()).unwrap();
        assert_eq!(read, events);
        assert_eq!(damage.damaged_blocks, 1);
        assert!(!damage.truncated);
    }
}

#[test]
fn two_damaged_blocks_are_counted_as_two() {
    let (events, mut file, borders) = recording();
    file[borders[1] + 20] ^= 1;
    file[borders[2] + 20] ^= 1;
    let (read, damage) = read_slice(&file).unwrap();
    assert_eq!(read, [&events[..3], &events[9..]].concat());
    assert_eq!(damage.damaged_blocks, 2);
    let codes: Vec<_> = damage
        .caveats()
        .iter()
        .map(|caveat| caveat.code())
        .collect();
    assert_eq!(codes, ["recording-damaged"]);
}

/// The header of a recording, then one block.
fn framed(version: u32, payload: &[u8]) -> Vec<u8> {
    let mut file = write(&[])[..HEADER - 4].to_vec();
    file.extend(version.to_le_bytes());
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    let start = [b"\xf5BLK", &length[..]].concat();
    let checks = [crc32fast::hash(&start), crc32fast::hash(payload)];
    file.extend(
        [
            start,
            checks.map(u32::to_le_bytes).concat(),
            payload.to_vec(),
        ]
        .concat(),
    );
    file
}

/// A payload of events that are already encoded, as a newer recorder would encode them.
fn payload(events: &[&[u8]]) -> Vec<u8> {
    let framed = |event: &&[u8]| [&[u8::try_from(event.len()).unwrap()], *event].concat();
    events.iter().flat_map(framed).collect()
}

#[test]
fn a_newer_version_is_read_as_far_as_it_is_known() {
    let known = Event::ThreadPointer {
        thread: ThreadId(1),
        fs_base: Avma(2),
    };
    let ended = Event::Ended {
        at: Nanos(3),
        reason: StopReason::TimeOver,
    };
    let file = framed(
        VERSION + 1,
        &payload(&[
            b"\x09\x01\x02",
            b"\x7ba kind of the future",
            b"\x0e\x03\x01",
            b"\x0e\x03\x09a reason of the future",
        ]),
    );
    let (read, damage) = read_slice(&file).unwrap();
    assert_eq!(read, [known, ended]);
    let expected = Damage {
        truncated: false,
        damaged_blocks: 0,
        unknown_events: 2,
        version: VERSION + 1,
        newer: true,
    };
    assert_eq!(damage, expected);
    let caveat = damage.caveats().remove(0);
    assert_eq!(
        caveat.observation(),
        "the recording has format 3, this hitm knows 2; 2 events of unknown kinds are left out"
    );
}

#[test]
fn an_event_with_wrong_contents_is_left_out() {
    let sample_cut = b"\x08\x01\x02\x03";
    let sample_of_wide_thread = b"\x08\xff\xff\xff\xff\x1f\x01\x01\x01";
    let trailing = b"\x09\x01\x02\x03";
    let name_not_utf8 = b"\x06\x01\x01\xff\x02";
    for bad in [
        &sample_cut[..],
        sample_of_wide_thread,
        trailing,
        name_not_utf8,
        b"",
    ] {
        let file = framed(VERSION, &payload(&[bad, b"\x09\x01\x02"]));
        let (read, damage) = read_slice(&file).unwrap();
        assert_eq!((read.len(), damage.unknown_events), (1, 1), "{bad:?}");
    }
    // A length that points behind the payload.
    let file = framed(VERSION, &[0x03, 0x09, 0x01, 0x02, 0x7f, 0x09]);
    let (read, damage) = read_slice(&file).unwrap();
    assert_eq!((read.len(), damage.unknown_events), (1, 1));
}

#[test]
fn markers_that_are_no_blocks_cost_no_time() {
    // With lengths that were believed, each of these would have the rest of the file checked.
    let mut file = write(&one_of_each());
    let false_start = [b"\xf5BLK", &0x0010_0000_u32.to_le_bytes()[..], &[0; 8]].concat();
    file.extend(false_start.repeat(1 << 18));
    file.extend(&write(&one_of_each())[HEADER..]);
    let (read, damage) = read_slice(&file).unwrap();
    assert_eq!(read, [one_of_each(), one_of_each()].concat());
    assert_eq!(damage.damaged_blocks, 1);
}

#[test]
fn foreign_files_are_named() {
    let check = |bytes: &[u8], expected: &str| {
        let error = read_slice(bytes).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
        assert!(error.ends_with("with `hitm run -o FILE -- CMD`"), "{error}");
    };
    check(b"", "the file is empty");
    check(b"PERFILE2\x68\0\0\0\0\0\0\0", "this is a perf.data file");
    check(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0", "not a hitm recording");
    check(b"x", "not a hitm recording");
    check(b"HITM\n\x1a\nand more bytes", "not a hitm recording");
    check(b"HITM\r\n\x1a\n\0\0\0\0", "not a hitm recording");
    check(b"HITM\r\n\x1a\n\x01", "the recording ends after 9 bytes");
}

/// A source, or a sink, that fails after some bytes.
struct Failing<'a> {
    bytes: &'a [u8],
    space: usize,
}

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.bytes.read(buffer)? {
            0 => Err(io::Error::other("unplugged")),
            read => Ok(read),
        }
    }
}

impl io::Write for Failing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.space == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let fits = bytes.len().min(self.space);
        self.space -= fits;
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_source_that_fails_gives_what_came_before() {
    let (events, file, _) = recording();
    let mut reader = Reader::new(Failing {
        bytes: &file,
        space: 0,
    })
    .unwrap();
    assert_eq!(reader.by_ref().collect::<Vec<_>>(), events);
    assert!(reader.damage().truncated);
    assert_eq!(reader.read_error().unwrap().to_string(), "unplugged");
    let nothing = Reader::new(Failing {
        bytes: &[],
        space: 0,
    });
    assert!(matches!(nothing, Err(Error::Read(_))));
}

#[test]
fn a_full_disk_is_an_error_and_no_more() {
    let mut writer = Writer::new(Failing {
        bytes: &[],
        space: 20,
    })
    .unwrap();
    writer.event(&sample(1)).unwrap();
    assert!(matches!(writer.flush(), Err(Error::Write(_))));
    assert_eq!(writer.bytes(), HEADER as u64);
    writer.event(&sample(2)).unwrap();
    assert!(matches!(writer.into_inner(), Err(Error::Write(_))));
}
