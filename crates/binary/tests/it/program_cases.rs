//! Text cases: a few functions of assembler → what they access, where threads begin, and what those touch.
//!
//! A file in `program_cases/` has several of them, each as `==== title`, functions in the assembler's Intel syntax, `----`,
//! and what is expected. `fn NAME` and `end NAME` stand around a function, `word NAME` is a variable of 8 bytes and
//! `table NAME N` one of N times 8. A case is linked alone, as a shared library, in which calls of `pthread_create` and
//! the like reach another file. `UPDATE=1` rewrites what is expected.
//!
//! What is expected has, for each function, its accesses (`function kind bytes place`, a dot for each loop around them),
//! then the roots, which of them are over before others, then what these touch: who, how, where, whether in a loop, and under which locks (`~` where others may
//! hold it too). `?` is code of which nobody knows who calls it.

use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;

use hitm_binary::image::Image;
use hitm_binary::program::{Lineage, Place, Program, RootKind, Touch};
use hitm_model::Svma;

use crate::program;

const PREAMBLE: &str = r"
.intel_syntax noprefix
.macro fn name
    .text
    .globl \name
    .type \name,@function
\name:
.endm
.macro end name
    .size \name,.-\name
.endm
.macro table name, count
    .bss
    .balign 8
    .type \name,@object
    .size \name,8*\count
\name: .zero 8*\count
    .text
.endm
.macro word name
    table \name, 1
.endm
";

#[test]
fn places() {
    check("places");
}

#[test]
fn kinds() {
    check("kinds");
}

#[test]
fn loops() {
    check("loops");
}

#[test]
fn threads() {
    check("threads");
}

#[test]
fn locks() {
    check("locks");
}

#[test]
fn lives() {
    check("lives");
}

#[test]
fn elements() {
    check("elements");
}

fn check(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/it/program_cases")
        .join(name)
        .with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut actual = String::new();
    for case in text.split("==== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let source = rest.split("----").next().unwrap().trim_end();
        let built = program::assembler(&format!("{PREAMBLE}{source}\n"));
        let shown = shown(&Image::parse(&built.bytes).unwrap());
        write!(actual, "==== {title}\n{source}\n----\n{shown}\n").unwrap();
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

fn shown(image: &Image<'_>) -> String {
    let program = Program::read(image, NonZeroUsize::MIN);
    let mut text = String::new();
    for function in program.functions() {
        let name = named(image, function.range.start);
        for access in &function.accesses {
            let kind = format!("{:?}", access.kind).to_lowercase();
            let exchanges = if access.exchanges { " exchanges" } else { "" };
            let place = place(image, access.place);
            let depth = ".".repeat(usize::from(access.depth));
            let size = access.size;
            writeln!(text, "{name} {depth}{kind}{exchanges} {size} {place}").unwrap();
        }
        if !function.complete {
            writeln!(text, "{name} has what is no instruction").unwrap();
        }
    }
    for root in program
        .roots()
        .iter()
        .filter(|root| !root.entries.is_empty())
    {
        let kind = match root.kind {
            RootKind::Main => "main",
            RootKind::Thread => "thread",
        };
        let several = if root.many { " several" } else { "" };
        let entry = named(image, root.entries[0]);
        let started: Vec<String> = root
            .started_at
            .iter()
            .map(|&at| in_function(&program, image, at))
            .collect();
        let by = if started.is_empty() {
            String::new()
        } else {
            format!(" by {}", started.join(" "))
        };
        writeln!(text, "{kind} {entry}{several}{by}").unwrap();
    }
    if program.unknown_starts() > 0 {
        writeln!(
            text,
            "{} starts of something unknown",
            program.unknown_starts()
        )
        .unwrap();
    }
    let mut apart: Vec<_> = program.apart().iter().copied().collect();
    apart.sort_unstable();
    for (one, other) in apart {
        let entry = |root: u16| named(image, program.roots()[usize::from(root)].entries[0]);
        writeln!(text, "{} is over before {}", entry(one), entry(other)).unwrap();
    }
    for touch in program.touches() {
        writeln!(text, "{}", touched(&program, image, touch)).unwrap();
    }
    text
}

fn touched(program: &Program, image: &Image<'_>, touch: &Touch) -> String {
    let root = touch.root.map_or("?".to_owned(), |root| {
        let entries = &program.roots()[usize::from(root)].entries;
        entries
            .first()
            .map_or("main".to_owned(), |&entry| named(image, entry))
    });
    let kind = format!("{:?}", touch.kind).to_lowercase();
    let flags = [
        (touch.lock, " lock"),
        (touch.hot, " hot"),
        (touch.by_thread, " by-thread"),
        (touch.chosen, " chosen"),
    ];
    let flags: String = flags
        .iter()
        .filter(|(is, _)| *is)
        .map(|(_, flag)| *flag)
        .collect();
    let stride = if touch.stride > 0 {
        format!("[{}]", touch.stride)
    } else {
        String::new()
    };
    let mut held = String::new();
    for lock in program.locks(touch.held) {
        let shared = if lock.shared { "~" } else { "" };
        write!(held, " under {shared}{}", named(image, lock.address)).unwrap();
    }
    format!(
        "{root}: {kind} {} {}{stride}{flags}{held}",
        touch.size,
        named(image, touch.address)
    )
}

fn place(image: &Image<'_>, place: Place) -> String {
    let strided = |stride: u32| {
        if stride > 0 {
            format!("[{stride}]")
        } else {
            String::new()
        }
    };
    match place {
        Place::File {
            address,
            stride,
            index,
        } => {
            let by = if index.meets(Lineage::THREAD) {
                " by-thread"
            } else {
                ""
            };
            format!("{}{}{by}", named(image, address), strided(stride))
        }
        Place::Argument {
            number,
            offset,
            stride,
            ..
        } => {
            format!("argument{number}{offset:+}{}", strided(stride))
        }
        Place::Pointer {
            held_at,
            offset,
            stride,
            ..
        } => {
            let held = held_at.map_or("something".to_owned(), |at| {
                format!("*{}", named(image, at))
            });
            format!("{held}{offset:+}{}", strided(stride))
        }
    }
}

fn in_function(program: &Program, image: &Image<'_>, at: Svma) -> String {
    let function = program.function_at(at).unwrap();
    named(image, function.range.start)
}

/// A symbol, with an offset where it begins elsewhere.
fn named(image: &Image<'_>, at: Svma) -> String {
    let Some(symbol) = image.symbol_at(at) else {
        return "elsewhere".to_owned();
    };
    match at.offset_from(symbol.svma) {
        Some(0) | None => symbol.name,
        Some(offset) => format!("{}+{offset}", symbol.name),
    }
}
