//! Replies as another library reads them, in both versions of the protocol.

use std::collections::BTreeMap;

use ioserver::resp::{Protocol, Reply};
use proptest::prelude::*;
use redis_protocol::{resp2, resp3};

/// A reply, as it is meant.
#[derive(Clone, Debug, PartialEq)]
enum Meant {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Text(String),
    Null,
    Array(Vec<Meant>),
    Map(BTreeMap<Vec<u8>, Meant>),
}

fn meant() -> impl Strategy<Value = Meant> {
    let leaf = prop_oneof![
        "[ -~]{0,30}".prop_map(Meant::Simple),
        "[A-Z]{1,5} [ -~]{0,30}".prop_map(Meant::Error),
        any::<i64>().prop_map(Meant::Integer),
        prop::collection::vec(any::<u8>(), 0..300).prop_map(Meant::Bulk),
        "[ -~\r\n]{0,60}".prop_map(Meant::Text),
        Just(Meant::Null),
    ];
    leaf.prop_recursive(3, 40, 6, |inner| {
        let key = prop::collection::vec(any::<u8>(), 0..10);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Meant::Array),
            prop::collection::btree_map(key, inner, 0..6).prop_map(Meant::Map),
        ]
    })
}

fn write(meant: &Meant, reply: &mut Reply) {
    match meant {
        Meant::Simple(text) => reply.simple(text),
        Meant::Error(text) => reply.error(text),
        Meant::Integer(number) => reply.integer(*number),
        Meant::Bulk(bytes) => reply.bulk(bytes),
        Meant::Text(text) => reply.text(text),
        Meant::Null => reply.null(),
        Meant::Array(elements) => {
            reply.array(elements.len());
            elements.iter().for_each(|element| write(element, reply));
        }
        Meant::Map(pairs) => {
            reply.map(pairs.len());
            for (key, value) in pairs {
                reply.bulk(key);
                write(value, reply);
            }
        }
    }
}

/// What is left of the meaning where there are no maps and texts.
fn flattened(meant: &Meant) -> Meant {
    match meant {
        Meant::Text(text) => Meant::Bulk(text.clone().into_bytes()),
        Meant::Array(elements) => Meant::Array(elements.iter().map(flattened).collect()),
        Meant::Map(pairs) => {
            let pairs = pairs
                .iter()
                .flat_map(|(key, value)| [Meant::Bulk(key.clone()), flattened(value)]);
            Meant::Array(pairs.collect())
        }
        other => other.clone(),
    }
}

fn of_resp2(frame: resp2::types::OwnedFrame) -> Meant {
    use resp2::types::OwnedFrame as Frame;
    match frame {
        Frame::SimpleString(text) => Meant::Simple(String::from_utf8(text).unwrap()),
        Frame::Error(text) => Meant::Error(text),
        Frame::Integer(number) => Meant::Integer(number),
        Frame::BulkString(bytes) => Meant::Bulk(bytes),
        Frame::Array(frames) => Meant::Array(frames.into_iter().map(of_resp2).collect()),
        Frame::Null => Meant::Null,
    }
}

fn of_resp3(frame: resp3::types::OwnedFrame) -> Meant {
    use resp3::types::OwnedFrame as Frame;
    match frame {
        Frame::SimpleString { data, .. } => Meant::Simple(String::from_utf8(data).unwrap()),
        Frame::SimpleError { data, .. } => Meant::Error(data),
        Frame::Number { data, .. } => Meant::Integer(data),
        Frame::BlobString { data, .. } => Meant::Bulk(data),
        Frame::VerbatimString { data, .. } => Meant::Text(String::from_utf8(data).unwrap()),
        Frame::Null => Meant::Null,
        Frame::Array { data, .. } => Meant::Array(data.into_iter().map(of_resp3).collect()),
        Frame::Map { data, .. } => {
            let pair = |(key, value)| match of_resp3(key) {
                Meant::Bulk(key) => (key, of_resp3(value)),
                other => panic!("a key is {other:?}"),
            };
            Meant::Map(data.into_iter().map(pair).collect())
        }
        other => panic!("never written: {other:?}"),
    }
}

proptest! {
    #[test]
    fn another_library_reads_what_was_meant(meant in meant()) {
        let mut reply = Reply::new(usize::MAX);
        write(&meant, &mut reply);
        let (frame, used) = resp2::decode::decode(reply.bytes()).unwrap().unwrap();
        prop_assert_eq!((of_resp2(frame), used), (flattened(&meant), reply.bytes().len()));

        let mut reply = Reply::new(usize::MAX);
        reply.set_protocol(Protocol::Resp3);
        write(&meant, &mut reply);
        let (frame, used) = resp3::decode::complete::decode(reply.bytes()).unwrap().unwrap();
        prop_assert_eq!((of_resp3(frame), used), (meant, reply.bytes().len()));
    }

    #[test]
    fn a_reply_keeps_to_its_room(meant in meant(), room in 0usize..200) {
        let mut whole = Reply::new(usize::MAX);
        write(&meant, &mut whole);
        let mut reply = Reply::new(room);
        write(&meant, &mut reply);
        prop_assert!(reply.bytes().len() <= room);
        prop_assert!(whole.bytes().starts_with(reply.bytes()));
        prop_assert_eq!(reply.overflowed(), whole.bytes().len() > room);
    }
}

#[test]
fn an_error_is_one_line() {
    let mut reply = Reply::new(100);
    reply.error("ERR two\r\nlines");
    assert_eq!(reply.bytes(), b"-ERR two  lines\r\n");
}
