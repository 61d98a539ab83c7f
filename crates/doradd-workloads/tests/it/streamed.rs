//! Logs from a pipe: the same records however they are cut into pieces, and the same faults.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use doradd::{Log, Next};
use doradd_workloads::log::{RECORD_BYTES, Rows, Streamed, Transaction};
use proptest::prelude::*;

const ROWS: Rows = Rows(1000);

fn log(n: u32) -> (Vec<Transaction>, Vec<u8>) {
    let transactions: Vec<_> = (0..n)
        .map(|i| Transaction::new([i % 1000; 10], (i % 1024) as u16).unwrap())
        .collect();
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.extend(transactions.iter().flat_map(Transaction::encode));
    (transactions, bytes)
}

/// Gives bytes in pieces of given sizes.
struct Pieces {
    bytes: io::Cursor<Vec<u8>>,
    sizes: std::iter::Cycle<std::vec::IntoIter<usize>>,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let size = Iterator::next(&mut self.sizes)
            .unwrap_or(1)
            .clamp(1, into.len());
        self.bytes.read(&mut into[..size])
    }
}

/// The transactions that come, and why no more come.
fn read(bytes: Vec<u8>, sizes: Vec<usize>) -> (Vec<Transaction>, Option<String>) {
    let pieces = Pieces {
        bytes: io::Cursor::new(bytes),
        sizes: sizes.into_iter().cycle(),
    };
    let mut streamed = Streamed::<Transaction>::read(pieces, ROWS).unwrap();
    let mut transactions = Vec::new();
    loop {
        let mut source = &mut streamed;
        match Log::next(&mut source) {
            Next::Txn(transaction) => transactions.push(transaction),
            Next::NotYet => std::thread::sleep(Duration::from_micros(10)),
            Next::End => break,
        }
    }
    (
        transactions,
        streamed.fault().map(|fault| fault.to_string()),
    )
}

fn check(change: impl FnOnce(&mut Vec<u8>), good: usize, expected: &str) {
    let (transactions, mut bytes) = log(3);
    change(&mut bytes);
    let (read, fault) = read(bytes, vec![100]);
    assert_eq!(read, transactions[..good]);
    let fault = fault.unwrap_or_default();
    assert!(
        fault.contains(expected) && fault.is_empty() == expected.is_empty(),
        "{fault}\ndoes not say\n{expected}"
    );
}

#[test]
fn what_is_before_a_fault_comes_and_the_fault_is_said() {
    check(|_| (), 3, "");
    check(|bytes| bytes.clear(), 0, "the log has 0 bytes and no room");
    check(
        |bytes| bytes.truncate(2),
        0,
        "the log has 2 bytes and no room",
    );
    check(|bytes| bytes.truncate(4), 0, "record 0 is cut off");
    check(
        |bytes| bytes.truncate(4 + 2 * RECORD_BYTES + 1),
        2,
        "record 2 is cut off: the log should have 3 records of 128 bytes, and ends after 261 bytes",
    );
    check(
        |bytes| bytes.push(0),
        3,
        "goes on after its 3 records, at byte 388",
    );
    check(
        |bytes| bytes[0] = 2,
        2,
        "goes on after its 2 records, at byte 260",
    );
    check(
        |bytes| bytes[4 + RECORD_BYTES + 1] = 0xFF,
        1,
        "record 1: key 65281 is beyond",
    );
    check(|bytes| bytes[4 + 41] = 0xFF, 0, "record 0: the write mask");
}

/// A log of zeros without an end, which counts what is read of it.
struct Endless {
    header: io::Cursor<[u8; 4]>,
    read: Arc<AtomicU64>,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = match self.header.read(into)? {
            0 => {
                into.fill(0);
                into.len()
            }
            read => read,
        };
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[test]
fn a_log_is_read_not_far_ahead_of_what_is_executed() {
    let read = Arc::new(AtomicU64::new(0));
    let endless = Endless {
        header: io::Cursor::new(u32::MAX.to_le_bytes()),
        read: Arc::clone(&read),
    };
    let mut streamed = Streamed::<Transaction>::read(endless, ROWS).unwrap();
    let mut taken = 0;
    while taken < 10_000 {
        match Log::next(&mut &mut streamed) {
            Next::Txn(_) => taken += 1,
            Next::NotYet => std::thread::sleep(Duration::from_micros(10)),
            Next::End => panic!("{:?}", streamed.fault()),
        }
    }
    // Time to read too much, if it did.
    std::thread::sleep(Duration::from_millis(20));
    let ahead = read.load(Ordering::Relaxed) - 10_000 * RECORD_BYTES as u64;
    assert!(ahead <= 1 << 20, "{ahead} bytes ahead");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn pieces_of_any_size_are_put_together(n in 0..3000u32, sizes in proptest::collection::vec(1..70_000usize, 1..5)) {
        let (transactions, bytes) = log(n);
        let (read, fault) = read(bytes, sizes.into_iter().map(|size| size.max(50)).collect());
        prop_assert_eq!(fault, None);
        prop_assert!(read == transactions);
    }
}
