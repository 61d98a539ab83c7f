//! Compiled loops: what is before a loop's condition has been waited for at the condition.

use std::process::Command;

use hitm_binary::decode::Function;
use hitm_binary::image::Image;
use hitm_model::{AccessKind, Svma};
use iced_x86::{Decoder, DecoderOptions};
use object::{Object as _, ObjectSymbol as _};

#[test]
fn optimised() {
    check(&["-O2"]);
}

#[test]
fn optimised_more() {
    check(&["-O3"]);
}

#[test]
fn optimised_for_size() {
    check(&["-Os"]);
}

#[test]
fn unoptimised() {
    check(&["-O0"]);
}

#[test]
fn at_a_fixed_address() {
    check(&["-O2", "-fcf-protection=full", "-fno-pie", "-no-pie"]);
}

/// In each function of `while.c`, the `lock` is in the block at the instruction behind it.
fn check(flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("while");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/decode/while.c");
    let compiled = Command::new("gcc")
        .args(flags)
        .arg("-o")
        .arg(&path)
        .arg(source)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");

    let bytes = std::fs::read(&path).unwrap();
    let image = Image::parse(&bytes).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    for name in ["receive", "transmit"] {
        let mut symbols = file.symbols();
        let symbol = symbols.find(|symbol| symbol.name() == Ok(name)).unwrap();
        let function = Function::in_image(&image, Svma(symbol.address())).unwrap();
        let code = function.code();
        let lock = Decoder::with_ip(64, code.bytes, code.start.0, DecoderOptions::NONE)
            .into_iter()
            .find(|instruction| instruction.has_lock_prefix())
            .unwrap();
        let block = function.block_at(Svma(lock.next_ip())).unwrap();
        let just_before = block.operands.iter().find(|operand| operand.place == -1);
        let operand = just_before.unwrap_or_else(|| panic!("{name} {flags:?}: {block:?}"));
        assert_eq!(operand.instruction, Svma(lock.ip()));
        assert_eq!(operand.size, 8);
        assert_ne!(operand.kind, AccessKind::Read);
    }
}
