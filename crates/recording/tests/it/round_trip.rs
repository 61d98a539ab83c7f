//! What is written is what is read, in blocks of bounded size.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::rc::Rc;

use hitm_model::{Event, Nanos, StopReason};
use hitm_recording::{BLOCK_BYTES, Error, MAX_PAYLOAD_BYTES, Reader, VERSION, Writer, read_slice};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::events::{any_event, one_of_each, sample};

pub(crate) fn write(events: &[Event]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for event in events {
        writer.event(event).unwrap();
    }
    writer.into_inner().unwrap()
}

/// A source that gives one byte at a time, as a pipe may.
struct Drip<'a>(&'a [u8]);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = buffer.len().min(1);
        self.0.read(&mut buffer[..len])
    }
}

proptest! {
    #[test]
    fn any_events_come_back(events in vec((any_event(), any::<bool>()), 0..40)) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for (event, flush) in &events {
            writer.event(event).unwrap();
            if *flush {
                writer.flush().unwrap();
            }
        }
        let counted = writer.bytes();
        prop_assert_eq!(writer.events(), events.len() as u64);
        let bytes = writer.into_inner().unwrap();
        prop_assert_eq!(counted, bytes.len() as u64);
        let events: Vec<_> = events.into_iter().map(|(event, _)| event).collect();
        let (read, damage) = read_slice(&bytes).unwrap();
        prop_assert_eq!(&read, &events);
        prop_assert_eq!(damage.truncated, !events.iter().any(|event| matches!(event, Event::Ended { .. })));
        prop_assert_eq!((damage.damaged_blocks, damage.unknown_events), (0, 0));
        let dripped: Vec<_> = Reader::new(Drip(&bytes)).unwrap().collect();
        prop_assert_eq!(dripped, events);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..300), blocks in 0..4usize) {
        let _ = read_slice(&bytes);
        let mut after_header = write(&one_of_each()[..blocks]);
        after_header.extend(&bytes);
        let (read, _) = read_slice(&after_header).unwrap();
        prop_assert_eq!(&read[..], &one_of_each()[..blocks]);
    }
}

#[test]
fn a_whole_recording_has_no_damage() {
    let (read, damage) = read_slice(&write(&one_of_each())).unwrap();
    assert_eq!(read, one_of_each());
    assert_eq!(damage.version, VERSION);
    assert_eq!(damage.caveats(), []);
}

/// A sink that can be looked into while it is written.
#[derive(Clone, Default)]
struct Shared(Rc<RefCell<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn blocks_end_by_themselves_and_a_dropped_writer_loses_only_the_last() {
    let sink = Shared::default();
    let mut writer = Writer::new(sink.clone()).unwrap();
    let n = 3000;
    for i in 0..n {
        writer.event(&sample(i)).unwrap();
    }
    let per_sample = writer.bytes() / n;
    assert!(
        (100..=128).contains(&per_sample),
        "{per_sample} bytes per sample"
    );
    drop(writer);
    let (read, damage) = read_slice(&sink.0.borrow()).unwrap();
    let lost = n - read.len() as u64;
    assert!(
        (1..=BLOCK_BYTES as u64 / per_sample).contains(&lost),
        "{lost} lost"
    );
    assert!(
        read.iter()
            .eq((0..n - lost).map(sample).collect::<Vec<_>>().iter())
    );
    assert!(damage.truncated);
}

#[test]
fn a_reader_sees_a_growing_recording_up_to_the_last_flush() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.event(&sample(1)).unwrap();
    writer.flush().unwrap();
    let flushed = writer.bytes() as usize;
    writer.event(&sample(2)).unwrap();
    let file = writer.into_inner().unwrap();
    let (read, damage) = read_slice(&file[..flushed]).unwrap();
    assert_eq!(read, [sample(1)]);
    assert!(damage.truncated, "there is no `Ended` yet");
}

#[test]
fn a_long_event_has_a_block_of_its_own_and_a_too_long_one_is_refused() {
    let ended = |bytes| Event::Ended {
        at: Nanos(1),
        reason: StopReason::WriteFailed("x".repeat(bytes)),
    };
    let events = [sample(1), ended(MAX_PAYLOAD_BYTES - 100), sample(2)];
    let file = write(&events);
    assert!(file.len() > MAX_PAYLOAD_BYTES);
    assert!(read_slice(&file).unwrap().0 == events);

    let mut writer = Writer::new(Vec::new()).unwrap();
    let refused = writer.event(&ended(MAX_PAYLOAD_BYTES));
    assert!(
        matches!(refused, Err(Error::EventTooLong { .. })),
        "{refused:?}"
    );
    writer.event(&sample(3)).unwrap();
    let file = writer.into_inner().unwrap();
    assert_eq!(read_slice(&file).unwrap().0, [sample(3)]);
}
