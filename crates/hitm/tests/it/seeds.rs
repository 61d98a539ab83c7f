//! The bodies of the fuzz targets on real files and damaged copies of them: the same ones in every run.
//!
//! The fuzzer needs a nightly toolchain and time; this bounded run needs neither. An input that it once found is a file
//! less to keep: what damages a header or a table here finds the same kinds of fault.

use std::fs;

use hitm_model::{Event, Nanos, StopReason};
use hitm_recording::Writer;
use hitm_testkit::{CompileError, Layout, fixture};
use object::read::elf::{FileHeader as _, SectionHeader as _};

#[path = "../../../../fuzz/bodies/binary.rs"]
mod binary;
#[path = "../../../../fuzz/bodies/decoder.rs"]
mod decoder;
#[path = "../../../../fuzz/bodies/layout.rs"]
mod layout;
#[path = "../../../../fuzz/bodies/program.rs"]
mod program;
#[path = "../../../../fuzz/bodies/recording.rs"]
mod recording;

/// Damaged copies of each kind and file.
const COPIES: u64 = 80;

/// Peak memory of a test process: a few files of some ten kilobytes need far less.
const MOST_MEMORY: u64 = 1 << 30;

/// A sequence that looks random and is always the same (xorshift).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// The parts of an ELF file, by their place in it: header, tables, sections.
fn parts(bytes: &[u8]) -> Vec<(usize, usize)> {
    type Header = object::elf::FileHeader64<object::LittleEndian>;
    let end = object::LittleEndian;
    let header = Header::parse(bytes).unwrap();
    let sections = header.sections(end, bytes).unwrap();
    let at = |offset: u64| usize::try_from(offset).unwrap();
    let mut parts = vec![
        (0, 64),
        (
            at(header.e_phoff(end)),
            56 * usize::from(header.e_phnum(end)),
        ),
        (
            at(header.e_shoff(end)),
            64 * usize::from(header.e_shnum(end)),
        ),
    ];
    let in_file = sections
        .iter()
        .filter_map(|section| section.file_range(end));
    parts.extend(in_file.map(|(offset, size)| (at(offset), at(size))));
    parts.retain(|&(offset, size)| size > 0 && offset + size <= bytes.len());
    parts
}

/// A copy with a few words of one part changed, to what is at a border more often than not.
fn damaged(bytes: &[u8], parts: &[(usize, usize)], chance: &mut Chance) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    let (offset, size) = parts[chance.below(parts.len())];
    for _ in 0..=chance.below(4) {
        let at = offset + chance.below(size);
        let word = match chance.below(8) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << 63,
            3 => copy.len() as u64,
            4 => copy.len() as u64 - 1,
            5 => 0x7f,
            6 => at as u64,
            _ => chance.next(),
        };
        let width = [1, 1, 2, 4, 8][chance.below(5)].min(copy.len() - at);
        copy[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
    }
    copy
}

#[track_caller]
fn run_on(files: &[Vec<u8>], body: fn(&[u8])) {
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    for bytes in files {
        body(bytes);
        let parts = parts(bytes);
        for _ in 0..COPIES {
            body(&damaged(bytes, &parts, &mut chance));
        }
        // Cut within the header, and at borders of parts: there whole tables are missing.
        let borders = parts
            .iter()
            .flat_map(|&(offset, size)| [offset, offset + size / 2]);
        for cut in borders.chain([1, 63]) {
            body(&bytes[..cut.min(bytes.len())]);
        }
    }
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.unwrap().trim().trim_end_matches(" kB");
    let peak = kilobytes.parse::<u64>().unwrap() << 10;
    assert!(peak < MOST_MEMORY, "{peak} bytes");
}

/// Programs with what readers look at: threads, a function's static with its guard, a type with atomics; debug information
/// of both versions, and compressed.
fn programs() -> Option<Vec<Vec<u8>>> {
    let variant = |flags: &[&str]| hitm_testkit::Variant {
        name: "damaged".to_owned(),
        flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
    };
    let mut files = Vec::new();
    for (name, flags) in [
        ("static_local", &["-gdwarf-5"][..]),
        ("refcount_payload", &["-gdwarf-4"]),
        ("adjacent_globals", &["-gz"]),
    ] {
        match fixture(name).build(Layout::Faulty, Some(&variant(flags))) {
            Ok(built) => files.push(fs::read(built.program).unwrap()),
            Err(CompileError::NoCompiler(compiler)) => {
                hitm_testkit::skipped(&format!("no {compiler}"));
                return None;
            }
            Err(error) => panic!("{error}"),
        }
    }
    Some(files)
}

#[test]
fn damaged_files_are_read_without_a_panic() {
    let Some(files) = programs() else { return };
    run_on(&files, binary::run);
}

#[test]
fn damaged_files_are_laid_out_and_compared_without_a_panic() {
    let Some(files) = programs() else { return };
    run_on(&files, layout::run);
}

#[test]
fn damaged_files_are_checked_without_a_panic() {
    let Some(files) = programs() else { return };
    run_on(&files, program::run);
}

#[test]
fn any_bytes_are_decoded_without_a_panic() {
    let mut chance = Chance(1);
    for length in 0..200 {
        let bytes: Vec<u8> = (0..length).map(|_| chance.next() as u8).collect();
        decoder::run(&bytes);
    }
    // Code that was compiled has long blocks, unlike random bytes.
    let own = fs::read(env!("CARGO_BIN_EXE_hitm")).unwrap();
    let middle = own.len() / 2;
    for block in own[middle..].chunks_exact(256).take(100) {
        decoder::run(block);
    }
}

#[test]
fn damaged_recordings_are_read_without_a_panic() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for at in 0..50 {
        let at = Nanos(at);
        writer.event(&Event::Lost { at, events: at.0 }).unwrap();
    }
    let (at, reason) = (Nanos(50), StopReason::TimeOver);
    writer.event(&Event::Ended { at, reason }).unwrap();
    let whole = writer.into_inner().unwrap();
    let mut chance = Chance(2);
    for cut in 0..whole.len() {
        recording::run(&whole[..cut]);
        recording::run(&damaged(&whole, &[(0, whole.len())], &mut chance));
    }
    recording::run(&whole);
}
