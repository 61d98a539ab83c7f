//! Blocks of functions with jump tables: a block reaches back over instructions only if no table leads between them.

use std::path::Path;
use std::process::Command;

use hitm_binary::decode::{Block, Code, Function};
use hitm_model::Svma;
use object::{File, Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind};

/// Each label is a symbol; `a` and `b` are in the table, `other` is not a target at all.
const POSITION_INDEPENDENT: &str = "
f:  cmp edi, 1
    ja c
    lea rdx, [rip+table]
    movsxd rax, dword ptr [rdx+rdi*4]
    add rax, rdx
    jmp rax
a:  mov rax, [rsi]
other:
    mov rcx, [rsi+8]
b:  mov rcx, [rsi+16]
c:  mov rcx, [rsi+24]
end: ret
.size f, .-f
.section .rodata
table: .long a-table, b-table
";

const WITHOUT_OPTIMISATION: &str = "
f:  cmp dword ptr [rbp-4], 1
    ja c
    mov eax, [rbp-4]
    lea rdx, [rax*4]
    lea rax, [rip+table]
    mov eax, [rdx+rax]
    cdqe
    lea rdx, [rip+table]
    add rax, rdx
    jmp rax
a:  mov rax, [rsi]
other:
    mov rcx, [rsi+8]
b:  mov rcx, [rsi+16]
c:  mov rcx, [rsi+24]
end: ret
.size f, .-f
.section .rodata
table: .long a-table, b-table
";

const RELATIVE_TO_A_LABEL: &str = "
f:  lea rdx, [rip+table]
    movsxd rax, dword ptr [rdx+rdi*4]
    lea rdx, [rip+c]
    add rax, rdx
    jmp rax
a:  mov rax, [rsi]
other:
    mov rcx, [rsi+8]
b:  mov rcx, [rsi+16]
    je c
c:  mov rcx, [rsi+24]
end: ret
.size f, .-f
.section .rodata
table: .long a-c, b-c
";

const AT_A_FIXED_ADDRESS: &str = "
f:  cmp edi, 1
    ja c
    jmp [table+rdi*8]
a:  mov rax, [rsi]
other:
    mov rcx, [rsi+8]
b:  mov rcx, [rsi+16]
c:  mov rcx, [rsi+24]
end: ret
.size f, .-f
.section .rodata
table: .quad a, b
";

#[test]
fn position_independent() {
    check(POSITION_INDEPENDENT);
}

#[test]
fn without_optimisation() {
    check(WITHOUT_OPTIMISATION);
}

#[test]
fn relative_to_a_label() {
    check(RELATIVE_TO_A_LABEL);
}

#[test]
fn at_a_fixed_address() {
    check(AT_A_FIXED_ADDRESS);
}

#[test]
fn a_tail_call_through_a_register_is_none() {
    let object = link(
        "
f:  push rbx
    mov rbx, rdi
    mov rax, [rdi]
    mov rdi, [rax]
a:  mov rax, [rax+8]
    pop rbx
    jmp rax
.size f, .-f
",
    );
    let file = File::parse(&*object).unwrap();
    let (block, a) = (block_at(&file, "a"), address(&file, "a"));
    assert_eq!(block.range.start, address(&file, "f"), "{a}");
}

#[test]
fn a_jump_through_a_register_can_go_anywhere() {
    let object = link(
        "
f:  mov rcx, [rdi]
a:  mov rax, [rdi+8]
    jmp rax
.size f, .-f
",
    );
    let file = File::parse(&*object).unwrap();
    assert_eq!(block_at(&file, "a").range.start, address(&file, "a"));
}

#[test]
fn the_part_for_unlikely_cases_leads_back() {
    let object = link(
        "
f:  mov rcx, [rdi]
    jne cold
a:  mov rax, [rdi+8]
end: ret
.size f, .-f
cold: mov rcx, [rdi+16]
    jmp a
.size cold, .-cold
",
    );
    let file = File::parse(&*object).unwrap();
    let alone = function(&file, "f");
    let both = alone.clone().entered_from(code(&file, "cold"));
    let (f, a) = (address(&file, "f"), address(&file, "a"));
    let end = address(&file, "end");
    assert_eq!(alone.block_at(end).unwrap().range.start, f);
    assert_eq!(both.block_at(end).unwrap().range.start, a);
}

fn check(source: &str) {
    let object = link(source);
    let file = File::parse(&*object).unwrap();
    for (at, start) in [
        ("a", "a"),
        ("other", "a"),
        ("b", "b"),
        ("c", "c"),
        ("end", "c"),
    ] {
        let block = block_at(&file, at);
        assert_eq!(block.range.start, address(&file, start), "at {at}");
    }
    // Without the table any instruction may be a target.
    let blind = Function::new(code(&file, "f"));
    let other = address(&file, "other");
    assert_eq!(blind.block_at(other).unwrap().range.start, other);
}

fn block_at(file: &File<'_>, label: &str) -> Block {
    function(file, "f").block_at(address(file, label)).unwrap()
}

fn function<'a>(file: &'a File<'_>, name: &str) -> Function<'a> {
    Function::with_tables(code(file, name), |at| {
        let section = file.sections().find(|section| {
            section.kind() == SectionKind::ReadOnlyData
                && (section.address()..section.address() + section.size()).contains(&at.0)
        })?;
        let offset = at.0 - section.address();
        section.data().ok()?.get(offset as usize..)
    })
}

fn code<'a>(file: &'a File<'_>, name: &str) -> Code<'a> {
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
    let symbol = symbol.unwrap();
    let text = file.section_by_name(".text").unwrap();
    let bytes = text.data_range(symbol.address(), symbol.size());
    Code {
        start: Svma(symbol.address()),
        bytes: bytes.unwrap().unwrap(),
    }
}

fn address(file: &File<'_>, name: &str) -> Svma {
    let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
    Svma(symbol.unwrap().address())
}

/// A program of this assembler source at a fixed address.
fn link(source: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(
        path("program.s"),
        format!(".intel_syntax noprefix\n.text\n{source}"),
    )
    .unwrap();
    run(
        "gcc",
        &["-c", "-o"],
        &[&path("program.o"), &path("program.s")],
    );
    run(
        "ld",
        &["-e", "f", "-o"],
        &[&path("program"), &path("program.o")],
    );
    std::fs::read(path("program")).unwrap()
}

fn run(program: &str, flags: &[&str], paths: &[&Path]) {
    let output = Command::new(program)
        .args(flags)
        .args(paths)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
