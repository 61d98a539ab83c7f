//! Frames: what is read does not depend on how the bytes arrive, and what is no frame is told from few bytes.

use std::io::{self, Read};

use doradd_workloads::log::KEYS;
use doradd_workloads::rpc::buffers::{Filled, Input, Output};
use doradd_workloads::rpc::wire::{
    Ask, Body, Malformed, NoReply, REPLY, Reply, Request, RequestId, Status, parse,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::harness::{body, frame};

/// The body of the fuzz target, which needs a nightly toolchain and time; here on a bounded number of inputs.
#[path = "../../../../fuzz/bodies/rpc.rs"]
mod body;

/// A source that gives its bytes in pieces, and has nothing now and then.
struct Pieces<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::slice::Iter<'a, usize>>,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().copied().unwrap_or(1);
        if size == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let n = size.min(into.len()).min(self.bytes.len());
        into[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes = &self.bytes[n..];
        Ok(n)
    }
}

/// All requests until the end or the first fault, which comes with the bytes that were not taken.
fn read_in_pieces(bytes: &[u8], sizes: &[usize]) -> (Vec<Request>, Result<bool, Malformed>) {
    let mut source = Pieces {
        bytes,
        sizes: sizes.iter().cycle(),
    };
    let mut input = Input::default();
    let mut requests = Vec::new();
    loop {
        match input.take() {
            Ok(Some(request)) => requests.push(request),
            Ok(None) => {
                if input.fill(&mut source).unwrap() == Filled::End {
                    return (requests, Ok(input.is_empty()));
                }
            }
            Err(fault) => return (requests, Err(fault)),
        }
    }
}

/// The same from all bytes at once.
fn read_at_once(mut bytes: &[u8]) -> (Vec<Request>, Result<bool, Malformed>) {
    let mut requests = Vec::new();
    loop {
        match parse(bytes) {
            Ok(Some((request, length))) => {
                requests.push(request);
                bytes = &bytes[length..];
            }
            Ok(None) => return (requests, Ok(bytes.is_empty())),
            Err(fault) => return (requests, Err(fault)),
        }
    }
}

fn any_request() -> impl Strategy<Value = Request> {
    let execute = (any::<[u32; KEYS]>(), any::<u16>())
        .prop_map(|(keys, writes)| Ask::Execute(Body { keys, writes }));
    let ask = prop_oneof![execute, Just(Ask::State)];
    (any::<u64>(), ask).prop_map(|(id, ask)| Request {
        id: RequestId(id),
        ask,
    })
}

/// Sizes of pieces, with at least one that gives something.
fn any_sizes() -> impl Strategy<Value = Vec<usize>> {
    vec(0..100usize, 1..20).prop_map(|mut sizes| {
        sizes.push(7);
        sizes
    })
}

proptest! {
    #[test]
    fn requests_come_out_as_they_went_in(requests in vec(any_request(), 0..300), sizes in any_sizes()) {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| request.encode(&mut bytes));
        prop_assert_eq!(read_in_pieces(&bytes, &sizes), (requests, Ok(true)));
    }

    #[test]
    fn how_bytes_arrive_makes_no_difference(
        requests in vec(any_request(), 0..20),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        sizes in any_sizes(),
    ) {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| request.encode(&mut bytes));
        for (at, with) in flips {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] ^= with;
            }
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        prop_assert_eq!(read_in_pieces(&bytes, &sizes), read_at_once(&bytes));
    }

    #[test]
    fn what_fuzzing_asserts_holds_for_damaged_streams(
        size in any::<u8>(),
        requests in vec(any_request(), 0..5),
        flips in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        garbage in vec(any::<u8>(), 0..80),
    ) {
        let mut bytes = vec![size];
        requests.iter().for_each(|request| request.encode(&mut bytes));
        for (at, with) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= with;
        }
        bytes.extend(garbage);
        body::run(&bytes);
    }

    #[test]
    fn replies_come_out_as_they_went_in(
        status in prop::sample::select(vec![Status::Executed, Status::State, Status::Refused, Status::Goodbye]),
        detail in any::<u8>(), id in any::<u64>(), sequence in any::<u64>(), result in any::<u64>(),
    ) {
        let reply = Reply { status, detail, id: RequestId(id), sequence, result };
        prop_assert_eq!(Reply::from_bytes(&reply.to_bytes()), Ok(reply));
    }
}

#[test]
fn what_is_no_frame_is_told_from_the_bytes_that_show_it() {
    let whole = frame(1, Ask::Execute(body(1)));
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let huge = u32::MAX.to_le_bytes();
    for (bytes, expected) in [
        (&[0; 4][..], Err(Malformed::Length(0))),
        (&huge, Err(Malformed::Length(u32::MAX))),
        (b"GET / HT", Err(Malformed::Length(0x2054_4547))),
        (&[52, 0, 0, 0, 2], Err(Malformed::Kind(2))),
        (&[12, 0, 0, 0, 1], Err(Malformed::Kind(1))),
        (&with(5, 9), Err(Malformed::Reserved(9))),
        (
            &[12, 0, 0, 0, 2, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0],
            Err(Malformed::Reserved(3)),
        ),
        (&[52, 0, 0], Ok(None)),
        (&whole[..55], Ok(None)),
        (&[], Ok(None)),
    ] {
        assert_eq!(parse(bytes), expected, "{bytes:?}");
    }
    assert_eq!(Reply::from_bytes(&[0; REPLY]), Err(NoReply::Length(0)));
    let mut reply = [0; REPLY];
    reply[..5].copy_from_slice(&[28, 0, 0, 0, 77]);
    assert_eq!(Reply::from_bytes(&reply), Err(NoReply::Status(77)));
}

/// The page that describes the protocol gives these bytes.
#[test]
fn the_bytes_of_the_protocol_are_those_of_its_page() {
    let ask = Ask::Execute(Body {
        keys: std::array::from_fn(|i| 0x0101 * i as u32),
        writes: 0x0203,
    });
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let expected = "34 00 00 00 01 00 03 02 88 77 66 55 44 33 22 11 \
                    00 00 00 00 01 01 00 00 02 02 00 00 03 03 00 00 04 04 00 00 \
                    05 05 00 00 06 06 00 00 07 07 00 00 08 08 00 00 09 09 00 00";
    assert_eq!(hex(&frame(0x1122_3344_5566_7788, ask)), expected);
    let expected = "0c 00 00 00 02 00 00 00 88 77 66 55 44 33 22 11";
    assert_eq!(hex(&frame(0x1122_3344_5566_7788, Ask::State)), expected);
    let reply = Reply {
        status: Status::Refused,
        detail: 9,
        id: RequestId(1),
        sequence: 2,
        result: 3,
    };
    let expected = "1c 00 00 00 02 09 00 00 01 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00 03 00 00 00 00 00 00 00";
    assert_eq!(hex(&reply.to_bytes()), expected);
}

#[test]
fn an_output_sends_all_in_pieces_and_keeps_its_size() {
    /// Takes a few bytes, then nothing, in turn.
    struct Slow(Vec<u8>, bool);
    impl io::Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let n = bytes.len().min(19);
            self.0.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let reply = |i: u64| Reply {
        status: Status::Executed,
        detail: 0,
        id: RequestId(i),
        sequence: i,
        result: !i,
    };
    let (mut output, mut slow) = (Output::new(4), Slow(Vec::new(), false));
    for i in 0..100 {
        while output.replies() == 4 {
            output.flush(&mut slow).unwrap();
        }
        output.push(&reply(i));
    }
    while !output.flush(&mut slow).unwrap() {}
    assert!(output.is_empty());
    let expected: Vec<u8> = (0..100).flat_map(|i| reply(i).to_bytes()).collect();
    assert_eq!(slow.0, expected);
}
