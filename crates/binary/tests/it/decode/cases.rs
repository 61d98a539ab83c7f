//! Text cases: instructions and where the instruction pointer is → accesses.
//!
//! A file in `cases/` has several of them, each as `==== title`, instructions in the assembler's Intel syntax with a
//! label `ip:`, `----`, and what is expected. The registers of the sample are rax=0x10000, rcx=0x20000, … r15=0x100000
//! in the order of their encoding; the code is at 0x1000, the load bias is 0x400000 and `fs` is at 0x7f0000. An
//! operand is one line: place, kind, bytes, address as a form and as a value, base register (with its value then,
//! where it is not the one in the sample). `UPDATE=1` rewrites what is expected.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use hitm_binary::decode::{Block, Code, DecodeError, block_at};
use hitm_model::{Avma, Bias, Register, Registers, Svma};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

const START: u64 = 0x1000;

#[test]
fn addressing() {
    check("addressing");
}

#[test]
fn kinds() {
    check("kinds");
}

#[test]
fn stack() {
    check("stack");
}

#[test]
fn strings() {
    check("strings");
}

#[test]
fn vectors() {
    check("vectors");
}

#[test]
fn moved_registers() {
    check("moved_registers");
}

#[test]
fn frame() {
    check("frame");
}

#[test]
fn low_halves() {
    check("low_halves");
}

#[test]
fn flow() {
    check("flow");
}

#[test]
fn loops() {
    check("loops");
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/decode/cases")
        .join(name)
        .with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let cases = parse(&text);
    let object = assemble(&cases);
    let file = object::File::parse(&*object).unwrap();
    let mut actual = String::new();
    for (at, case) in cases.iter().enumerate() {
        let section = file.section_by_name(&format!(".text.{at}")).unwrap();
        let ip = file
            .symbols()
            .find(|symbol| symbol.name() == Ok(&format!("ip_{at}")))
            .unwrap_or_else(|| panic!("{}: no label ip", case.title))
            .address();
        let code = Code {
            start: Svma(START),
            bytes: section.data().unwrap(),
        };
        let block = block_at(code, Svma(START + ip));
        let source = case.source.trim_end();
        let title = case.title;
        write!(actual, "==== {title}\n{source}\n----\n{}\n", shown(&block)).unwrap();
    }
    let (text, actual) = (text.trim_end(), actual.trim_end());
    if text == actual {
        return;
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{actual}\n")).unwrap();
        return;
    }
    let differing = std::iter::zip(text.lines(), actual.lines())
        .position(|(expected, actual)| expected != actual);
    panic!("{name}: the first difference is in line {differing:?} of:\n{actual}");
}

struct Case<'a> {
    title: &'a str,
    source: &'a str,
}

fn parse(text: &str) -> Vec<Case<'_>> {
    text.split("==== ")
        .skip(1)
        .map(|case| {
            let (title, rest) = case.split_once('\n').unwrap();
            let source = rest.split("----").next().unwrap();
            Case { title, source }
        })
        .collect()
}

/// One object file with a section for each case.
fn assemble(cases: &[Case<'_>]) -> Vec<u8> {
    let mut source = String::from(".intel_syntax noprefix\n");
    for (at, case) in cases.iter().enumerate() {
        let body = case.source.replace("ip:", &format!("ip_{at}:"));
        writeln!(source, ".section .text.{at},\"ax\"\n{body}").unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let (input, output): (PathBuf, PathBuf) =
        (folder.path().join("cases.s"), folder.path().join("cases.o"));
    std::fs::write(&input, source).unwrap();
    let result = Command::new("gcc")
        .args(["-c", "-o"])
        .args([&output, &input])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{errors}");
    std::fs::read(output).unwrap()
}

fn shown(block: &Result<Block, DecodeError>) -> String {
    let block = match block {
        Ok(block) => block,
        Err(error) => return format!("error: {error}\n"),
    };
    let mut registers = Registers::default();
    for register in Register::ALL {
        registers.set(register, (register.index() as u64 + 1) << 16);
    }
    let mut text = format!(
        "{} instructions, {} unresolved\n",
        block.instructions, block.unresolved
    );
    for operand in &block.operands {
        let resolved = operand.resolve(&registers, Bias(0x40_0000), Some(Avma(0x7f_0000)));
        let value = resolved.map_or("?".to_owned(), |range| range.start.to_string());
        let kind = format!("{:?}", operand.kind).to_lowercase();
        let (place, size, address) = (operand.place, operand.size, operand.address);
        write!(text, "{place:>3} {kind:<6} {size:>2} {address} = {value}").unwrap();
        match &operand.base {
            Some((base, form)) if form.to_string() == base.name() => {
                write!(text, " via {base}").unwrap();
            }
            Some((base, form)) => write!(text, " via {base}={form}").unwrap(),
            None => {}
        }
        if let Some(count) = &operand.count {
            write!(text, " times {count}").unwrap();
        }
        if operand.implicit_stack {
            text.push_str(" (stack)");
        }
        text.push('\n');
    }
    text
}
