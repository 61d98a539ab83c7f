//! The machine code of the ways to count: in each loop an increment of memory, and a lock only where one is asked for.
//!
//! A compiler that turned `n` increments into one addition would leave a lab that measures nothing.

use std::path::Path;

use hitm_testkit::{have_tool, skip, tool_output};

use crate::programs::{c, rust};

fn disassembly(program: &Path) -> String {
    tool_output("objdump", &["-d", "-C", "--no-show-raw-insn"], program).unwrap()
}

/// Whether a line of the disassembly is the title of the function whose name ends so.
fn is_title(line: &str, name: &str) -> bool {
    line.strip_suffix(">:")
        .is_some_and(|title| title.ends_with(name))
}

fn is_disassembled(program: &Path, name: &str) -> bool {
    disassembly(program)
        .lines()
        .any(|line| is_title(line, name))
}

/// The instructions of the function whose name ends so, as address and text.
fn instructions(program: &Path, name: &str) -> Vec<(u64, String)> {
    let text = disassembly(program);
    let mut lines = text.lines().skip_while(|line| !is_title(line, name));
    assert!(lines.next().is_some(), "no function {name}");
    lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let (address, instruction) = line.trim().split_once(':')?;
            let address = u64::from_str_radix(address, 16).ok()?;
            Some((address, instruction.trim().to_owned()))
        })
        .collect()
}

/// The instructions from the target of the last backward jump to that jump.
fn loop_body(instructions: &[(u64, String)]) -> Vec<&str> {
    let jump = instructions.iter().rev().find_map(|(at, text)| {
        let target = text.split_whitespace().nth(1)?;
        let target = u64::from_str_radix(target, 16).ok()?;
        (text.starts_with('j') && target < *at).then_some((target, *at))
    });
    let (from, to) = jump.expect("no loop");
    let inside = instructions
        .iter()
        .filter(|(at, _)| (from..=to).contains(at));
    inside.map(|(_, text)| text.as_str()).collect()
}

/// Whether an instruction writes memory: its last operand is in parentheses, and it only compares with none.
fn stores(instruction: &str) -> bool {
    let compares = instruction.starts_with("cmp") || instruction.starts_with("test");
    let nothing = instruction.starts_with("nop") || instruction.starts_with("lea");
    instruction.ends_with(')') && !compares && !nothing
}

fn check(program: &Path, name: &str, locked: bool) {
    let instructions = instructions(program, name);
    let body = loop_body(&instructions);
    let stored = body.iter().filter(|it| stores(it)).count();
    assert!(stored >= 1, "{name} stores nothing in its loop: {body:?}");
    let has_lock = body.iter().any(|it| it.starts_with("lock"));
    assert_eq!(has_lock, locked, "{name}: {body:?}");
}

#[test]
fn each_increment_is_a_store() {
    if !have_tool("objdump") {
        skip!("no objdump");
    }
    if !cfg!(target_arch = "x86_64") {
        skip!("the instructions looked for are those of x86-64");
    }
    let rust = rust();
    check(&rust, "count::count_rmw", true);
    // `count_own` is the same machine code as `count_plain`, and the compiler keeps one of them.
    let plain = ["count::count_own", "count::count_plain"];
    let kept = plain.map(|name| is_disassembled(&rust, name));
    assert_ne!(kept, [false; 2]);
    for (name, _) in plain.iter().zip(kept).filter(|(_, kept)| *kept) {
        check(&rust, name, false);
    }
    check(&rust, "count::count_dependent", false);
    let c = match c() {
        Ok(c) => c,
        Err(why) => skip!("{why}"),
    };
    check(&c, "count_rmw", true);
    check(&c, "count_plain", false);
    check(&c, "count_dependent", false);
}
