//! The parser of requests: any bytes in any pieces, and requests that another library wrote.

use ioserver::resp::{Bounds, Commands, Parser, ProtocolError};
use proptest::prelude::*;
use redis_protocol::resp2::encode::encode;
use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame as _};

const BOUNDS: Bounds = Bounds {
    bulk_bytes: 4096,
    query_bytes: 20_000,
};

/// What a stream is: its commands, what is wrong with it, and how much of it waits for more.
type Stream = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>, usize);

fn parse<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Stream {
    let mut parser = Parser::new(BOUNDS);
    let mut commands = Commands::default();
    let mut waiting = Vec::new();
    let mut error = None;
    for part in parts {
        waiting.extend_from_slice(part);
        match parser.feed(&waiting, &mut commands) {
            Ok(used) => drop(waiting.drain(..used)),
            Err(fault) => {
                error = Some(fault);
                waiting.clear();
                break;
            }
        }
    }
    (listed(&commands), error, waiting.len())
}

fn listed(commands: &Commands) -> Vec<Vec<Vec<u8>>> {
    let arguments =
        |command: ioserver::resp::Command<'_>| command.from(0).map(<[u8]>::to_vec).collect();
    commands.iter().map(arguments).collect()
}

/// A command as another library writes it.
fn request(arguments: &[Vec<u8>]) -> Vec<u8> {
    let bulk = |bytes: &Vec<u8>| OwnedFrame::BulkString(bytes.clone());
    let frame = OwnedFrame::Array(arguments.iter().map(bulk).collect());
    let mut bytes = vec![0; frame.encode_len(false)];
    let written = encode(&mut bytes, &frame, false).unwrap();
    bytes.truncate(written);
    bytes
}

fn command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let argument = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..20),
        prop::collection::vec(any::<u8>(), 0..2000),
    ];
    prop::collection::vec(argument, 1..8)
}

/// Bytes that get deep into the parser: requests, with something wrong in them now and then.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => command().prop_map(|arguments| request(&arguments)),
        2 => "[a-zA-Z0-9 \"'\\\\]{0,40}\r?\n".prop_map(String::into_bytes),
        2 => "[*$:+-]?-?[0-9]{0,20}\r?\n?".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    /// The pieces in which bytes come change nothing.
    #[test]
    fn pieces_change_nothing(bytes in stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let parts = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
        let whole = parse([bytes.as_slice()]);
        prop_assert_eq!(&parse(parts), &whole);
        prop_assert_eq!(&parse(bytes.chunks(1)), &whole);
    }

    /// What another library writes is read as it was meant, whole commands handed on in between or not.
    #[test]
    fn requests_of_another_library(commands in prop::collection::vec(command(), 0..6), at_once in 1usize..3000) {
        let bytes: Vec<u8> = commands.iter().flat_map(|arguments| request(arguments)).collect();
        let bounds = Bounds { query_bytes: 1 << 20, ..BOUNDS };
        let (mut parser, mut store, mut waiting, mut read) = (Parser::new(bounds), Commands::default(), Vec::new(), Vec::new());
        for part in bytes.chunks(at_once) {
            waiting.extend_from_slice(part);
            let used = parser.feed(&waiting, &mut store).unwrap();
            waiting.drain(..used);
            read.extend(listed(&store));
            store.forget_whole();
        }
        prop_assert_eq!(read, commands);
        prop_assert_eq!((waiting.len(), store.held_bytes()), (0, 0));
    }

    /// Any bytes: no panic, and no more is held than the bound.
    #[test]
    fn any_bytes_are_held_within_the_bound(bytes in prop::collection::vec(any::<u8>(), 0..30_000)) {
        let mut parser = Parser::new(BOUNDS);
        let mut commands = Commands::default();
        if parser.feed(&bytes, &mut commands).is_ok() {
            prop_assert!(commands.held_bytes() <= BOUNDS.query_bytes);
        }
    }

    /// Words in quotes are what they were before they were quoted.
    #[test]
    fn quoted_words(words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 1..6)) {
        let quoted: Vec<String> = words.iter().map(|word| {
            let escaped: String = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("\"{escaped}\"")
        }).collect();
        let line = format!("{}\r\n", quoted.join(" "));
        prop_assert_eq!(parse([line.as_bytes()]), (vec![words], None, 0));
    }
}

#[test]
fn inline_words() {
    let cases: [(&str, &[&str]); 8] = [
        ("GET key", &["GET", "key"]),
        ("  GET \t key  ", &["GET", "key"]),
        (r#"SET "a b" 'c d'"#, &["SET", "a b", "c d"]),
        (r#"SET "" ''"#, &["SET", "", ""]),
        (r#"SET "\n\r\t\\\"\x41\q" x"#, &["SET", "\n\r\t\\\"Aq", "x"]),
        (r"SET 'it\'s \n' x", &["SET", "it's \\n", "x"]),
        (r#"SET a"b c"'d'"#, &["SET", "ab c"]),
        (r#"SET "\xZZ" x"#, &["SET", "xZZ", "x"]),
    ];
    for (line, words) in cases {
        let (commands, error, _) = parse([format!("{line}\r\n").as_bytes()]);
        if line.ends_with("'d'") {
            // A closing quote ends the word.
            assert_eq!(
                (commands.len(), error),
                (0, Some(ProtocolError::InlineQuotes))
            );
            continue;
        }
        let expected: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!((commands, error), (vec![expected], None), "{line}");
    }
}
