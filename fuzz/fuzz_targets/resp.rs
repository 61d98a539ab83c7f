//! A client's stream of any bytes, in any pieces, is the same commands and the same error, and is held within the bounds.

#![no_main]

use ioserver::resp::{Bounds, Commands, Parser, ProtocolError};
use libfuzzer_sys::fuzz_target;

/// Small, so that inputs reach them.
const BOUNDS: Bounds = Bounds {
    bulk_bytes: 100,
    query_bytes: 1000,
};

/// The commands with their arguments, and how the stream ends: an error, or so many bytes that wait for more.
type Stream = (Vec<Vec<Vec<u8>>>, Result<usize, ProtocolError>);

fn parse<'a>(parts: impl Iterator<Item = &'a [u8]>) -> Stream {
    let mut parser = Parser::new(BOUNDS);
    let mut commands = Commands::default();
    let (mut waiting, mut end) = (Vec::new(), Ok(0));
    for part in parts {
        waiting.extend_from_slice(part);
        match parser.feed(&waiting, &mut commands) {
            Ok(used) => drop(waiting.drain(..used)),
            Err(error) => {
                assert_eq!(parser.feed(b"PING\r\n", &mut commands), Err(error));
                end = Err(error);
                break;
            }
        }
        assert!(commands.held_bytes() <= BOUNDS.query_bytes);
    }
    let list = commands
        .iter()
        .map(|command| command.from(0).map(<[u8]>::to_vec).collect())
        .collect();
    (list, end.map(|_| waiting.len()))
}

fuzz_target!(|bytes: &[u8]| {
    let Some((at_once, stream)) = bytes.split_first() else {
        return;
    };
    let whole = parse(std::iter::once(stream));
    for command in &whole.0 {
        assert!(!command.is_empty());
    }
    assert_eq!(parse(stream.chunks(usize::from(*at_once).max(1))), whole);
});
