//! Any bytes, in any pieces, are the same requests and the same fault at the same place; requests are written as they were
//! read.

use std::io::{self, Read};

use doradd_workloads::rpc::buffers::{Filled, Input};
use doradd_workloads::rpc::wire::{Malformed, REPLY, Reply, Request, parse};

/// Gives its bytes in pieces of one size.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(into.len()).min(self.0.len());
        into[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

/// The requests, and how the stream ends: whole or not, or with a fault.
type Stream = (Vec<Request>, Result<bool, Malformed>);

fn in_pieces(bytes: &[u8], size: usize) -> Stream {
    let (mut source, mut input, mut requests) = (Pieces(bytes, size), Input::default(), Vec::new());
    loop {
        match input.take() {
            Ok(Some(request)) => requests.push(request),
            Ok(None) => {
                if input.fill(&mut source).expect("it gives all it has") == Filled::End {
                    return (requests, Ok(input.is_empty()));
                }
            }
            Err(fault) => return (requests, Err(fault)),
        }
    }
}

fn at_once(bytes: &[u8]) -> Stream {
    let (mut rest, mut requests) = (bytes, Vec::new());
    loop {
        match parse(rest) {
            Ok(Some((request, length))) => {
                let mut again = Vec::new();
                request.encode(&mut again);
                assert_eq!(again, rest[..length], "a request is written as it was read");
                requests.push(request);
                rest = &rest[length..];
            }
            Ok(None) => return (requests, Ok(rest.is_empty())),
            Err(fault) => return (requests, Err(fault)),
        }
    }
}

pub(crate) fn run(bytes: &[u8]) {
    let Some((size, stream)) = bytes.split_first() else {
        return;
    };
    assert_eq!(
        in_pieces(stream, usize::from(*size).max(1)),
        at_once(stream)
    );
    for frame in stream.as_chunks::<REPLY>().0 {
        if let Ok(reply) = Reply::from_bytes(frame) {
            let again = Reply::from_bytes(&reply.to_bytes());
            assert_eq!(again, Ok(reply));
        }
    }
}
