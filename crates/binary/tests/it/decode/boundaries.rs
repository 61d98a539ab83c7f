//! On compiled code, blocks begin and end where objdump says that instructions do, and hold as many.

use std::process::Command;

use hitm_binary::decode::{Code, Function};
use hitm_model::{Svma, SvmaRange};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SymbolKind};

#[test]
fn optimised_for_size() {
    check(&["-Os"]);
}

#[test]
fn optimised() {
    check(&["-O2"]);
}

#[test]
fn vectorised() {
    check(&["-O3", "-mavx2", "-mfma"]);
}

#[test]
fn unoptimised() {
    check(&["-O0"]);
}

fn check(flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("boundaries.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/decode/boundaries.c");
    let compiled = Command::new("gcc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&path)
        .args(flags)
        .arg(source)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");
    let listing = Command::new("objdump")
        .args(["-d", "-w", "--no-show-raw-insn", "-j", ".text"])
        .arg(&path)
        .output()
        .unwrap();
    let listing = String::from_utf8(listing.stdout).unwrap();
    let starts: Vec<u64> = listing.lines().filter_map(address_of_line).collect();

    let bytes = std::fs::read(&path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let (mut n_functions, mut n_ips) = (0, 0);
    for symbol in file.symbols() {
        let Ok(Some(bytes)) = text.data_range(symbol.address(), symbol.size()) else {
            continue;
        };
        if symbol.kind() != SymbolKind::Text || bytes.is_empty() {
            continue;
        }
        let code = Code {
            start: Svma(symbol.address()),
            bytes,
        };
        let function = Function::new(code);
        n_functions += 1;
        for &ip in starts.iter().filter(|&&ip| code.range().contains(Svma(ip))) {
            n_ips += 1;
            let block = function.block_at(Svma(ip)).unwrap();
            assert_eq!(
                n_within(&starts, block.range),
                Some(block.instructions as usize),
                "the block at {ip:#x} is {}:\n{listing}",
                block.range
            );
            for operand in &block.operands {
                let place = starts.binary_search(&operand.instruction.0).unwrap() as i32
                    - starts.binary_search(&ip).unwrap() as i32;
                assert_eq!(operand.place, place);
            }
        }
    }
    assert!(n_functions >= 9 && n_ips >= 150, "{n_functions} {n_ips}");
}

/// How many instructions are in a range, if it begins and ends with one.
fn n_within(starts: &[u64], range: SvmaRange) -> Option<usize> {
    let first = starts.binary_search(&range.start.0).ok()?;
    let behind = starts.binary_search(&range.end.0).ok();
    // The last function may end with the section.
    Some(behind.unwrap_or(starts.len()) - first)
}

/// Of `    1130:\tlea    rax,[rdi]`.
fn address_of_line(line: &str) -> Option<u64> {
    let (address, _) = line.split_once(":\t")?;
    u64::from_str_radix(address.trim(), 16).ok()
}
