//! Logs on the disk: what is written is read, and what is damaged is refused with the place.

use std::fs;
use std::path::{Path, PathBuf};

use doradd_workloads::log::{
    LogWriter, MappedLog, RECORD_BYTES, RecordFault, Rows, Transaction, WriteError,
};
use proptest::prelude::*;
use tempfile::TempDir;

const ROWS: Rows = Rows(1000);

fn write(path: &Path, transactions: &[Transaction]) {
    let mut writer = LogWriter::create(path, transactions.len() as u32).unwrap();
    for transaction in transactions {
        writer.push(&transaction.encode()).unwrap();
    }
    writer.finish().unwrap();
}

fn in_a_file(dir: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("log");
    fs::write(&path, bytes).unwrap();
    path
}

/// The bytes of a log of three good transactions.
fn three(dir: &TempDir) -> Vec<u8> {
    let path = dir.path().join("three");
    let transaction = |key| Transaction::new([key; 10], 0b10_0000_0001).unwrap();
    write(&path, &[1, 999, 3].map(transaction));
    fs::read(path).unwrap()
}

fn check(change: impl FnOnce(&mut Vec<u8>), expected: &str) {
    let dir = TempDir::new().unwrap();
    let mut bytes = three(&dir);
    change(&mut bytes);
    let said = match MappedLog::open(&in_a_file(&dir, &bytes), ROWS) {
        Ok(log) => format!("{} transactions", log.len()),
        Err(error) => error.to_string(),
    };
    assert!(said.contains(expected), "{said}\ndoes not say\n{expected}");
}

#[test]
fn what_is_wrong_with_a_log_is_said_with_its_place() {
    check(|_| (), "3 transactions");
    check(|bytes| bytes.clear(), "the log has 0 bytes and no room");
    check(|bytes| bytes.truncate(3), "the log has 3 bytes and no room");
    check(|bytes| bytes.truncate(4), "record 0 is cut off");
    check(
        |bytes| bytes.truncate(4 + 2 * RECORD_BYTES),
        "record 2 is cut off: the log should have 3 records",
    );
    check(
        |bytes| bytes.truncate(4 + 3 * RECORD_BYTES - 1),
        "record 2 is cut off",
    );
    check(
        |bytes| bytes.push(0),
        "goes on after its 3 records, at byte 388",
    );
    check(
        |bytes| bytes.extend([0; RECORD_BYTES]),
        "goes on after its 3 records, at byte 388",
    );
    check(
        |bytes| bytes[0] = 2,
        "goes on after its 2 records, at byte 260",
    );
    check(
        |bytes| bytes[3] = 0xFF,
        "record 3 is cut off: the log should have 4278190083 records",
    );
    check(
        |bytes| bytes[4 + RECORD_BYTES..][..4].copy_from_slice(&1000u32.to_le_bytes()),
        "record 1: key 1000 is beyond the last of 1000 rows: run with `--rows 1001`",
    );
    check(
        |bytes| bytes[4 + 2 * RECORD_BYTES + 36..][..4].fill(0xFF),
        "record 2: key 4294967295 is beyond",
    );
    check(
        |bytes| bytes[4 + 41] = 0x04,
        "record 0: the write mask is 0x0401",
    );
    // What the format leaves free may hold anything.
    check(
        |bytes| bytes[4 + 42..4 + RECORD_BYTES].fill(7),
        "3 transactions",
    );
}

#[test]
fn a_log_that_is_not_there_or_is_no_file_is_refused() {
    let dir = TempDir::new().unwrap();
    assert!(MappedLog::open(&dir.path().join("none"), ROWS).is_err());
    assert!(MappedLog::open(dir.path(), ROWS).is_err());
}

#[test]
fn an_empty_log_is_a_log() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    write(&path, &[]);
    assert!(MappedLog::open(&path, ROWS).unwrap().is_empty());
}

#[test]
fn nothing_is_left_of_a_log_that_was_not_completed() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("log");
    let record = Transaction::new([0; 10], 0).unwrap().encode();
    let mut writer = LogWriter::create(&path, 2).unwrap();
    writer.push(&record).unwrap();
    drop(writer);
    let mut writer = LogWriter::create(&path, 2).unwrap();
    writer.push(&record).unwrap();
    assert!(matches!(
        writer.finish(),
        Err(WriteError::Count {
            written: 1,
            announced: 2
        })
    ));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_log_replaces_an_older_one_at_once_and_keeps_a_link() {
    let dir = TempDir::new().unwrap();
    let (path, link) = (dir.path().join("log"), dir.path().join("link"));
    let transaction = |key| Transaction::new([key; 10], 0).unwrap();
    write(&path, &[transaction(1)]);
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut writer = LogWriter::create(&link, 2).unwrap();
    writer.push(&transaction(2).encode()).unwrap();
    assert_eq!(MappedLog::open(&path, ROWS).unwrap().len(), 1);
    writer.push(&transaction(3).encode()).unwrap();
    writer.finish().unwrap();
    let log = MappedLog::open(&path, ROWS).unwrap();
    assert!(log.entries().eq([transaction(2), transaction(3)]));
    assert!(link.is_symlink());
}

#[test]
fn a_full_disk_is_said() {
    let mut writer = LogWriter::create(Path::new("/dev/full"), 20_000).unwrap();
    let record = Transaction::new([0; 10], 0).unwrap().encode();
    let result = (0..20_000)
        .try_for_each(|_| writer.push(&record))
        .and_then(|()| writer.finish());
    let said = result.unwrap_err().to_string();
    assert!(
        said.contains("cannot write /dev/full: nothing is kept of it"),
        "{said}"
    );
}

#[test]
fn only_the_ten_rows_can_be_written() {
    assert_eq!(
        Transaction::new([0; 10], 1 << 10),
        Err(RecordFault::WriteMask(1 << 10))
    );
    let all = Transaction::new([0; 10], 0x3FF).unwrap();
    assert!((0..10).all(|i| all.is_write(i)) && !all.is_write(10));
}

fn transactions() -> impl Strategy<Value = Vec<Transaction>> {
    let one = (any::<[u32; 10]>(), 0..1024u16);
    proptest::collection::vec(
        one.prop_map(|(keys, writes)| Transaction::new(keys, writes).unwrap()),
        0..20,
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(transactions in transactions()) {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("log");
        write(&path, &transactions);
        prop_assert_eq!(fs::metadata(&path).unwrap().len(), 4 + 128 * transactions.len() as u64);
        let log = MappedLog::open(&path, Rows(1 << 32)).unwrap();
        prop_assert!(log.entries().eq(transactions));
    }

    /// Whatever is changed: it is a log of as many transactions, all of the table's rows, or it is refused.
    #[test]
    fn a_damaged_log_is_refused_or_a_log(at in 0..388usize, byte: u8, length in 0..400usize) {
        let dir = TempDir::new().unwrap();
        let mut bytes = three(&dir);
        bytes[at] = byte;
        bytes.resize(length.max(at + 1), 0);
        if let Ok(log) = MappedLog::open(&in_a_file(&dir, &bytes), ROWS) {
            prop_assert_eq!(log.len() as usize * RECORD_BYTES + 4, bytes.len());
            prop_assert_eq!(log.entries().count() as u64, log.len());
            prop_assert!(log.entries().all(|transaction| transaction.check(ROWS).is_ok()));
        }
    }
}
