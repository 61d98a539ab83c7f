//! Blocks of functions with jump tables: a block reaches back over instructions only if no table leads between them.

use std::path::Path;
use std::process::Command;

use hitm_binary::decode::{Block, Code, Function};
use hitm_binary::image::Image;
use hitm_model::Svma;
use object::{Object as _, ObjectSymbol as _};

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
.type f, @function
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
.type f, @function
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
.type f, @function
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
.type f, @function
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
    let program = link(
        "
f:  push rbx
    mov rbx, rdi
    mov rax, [rdi]
    mov rdi, [rax]
a:  mov rax, [rax+8]
    pop rbx
    jmp rax
.type f, @function
.size f, .-f
",
    );
    assert_eq!(block_at(&program, "a").range.start, address(&program, "f"));
}

#[test]
fn a_jump_through_a_register_can_go_anywhere() {
    let program = link(
        "
f:  mov rcx, [rdi]
a:  mov rax, [rdi+8]
    jmp rax
.type f, @function
.size f, .-f
",
    );
    assert_eq!(block_at(&program, "a").range.start, address(&program, "a"));
}

#[test]
fn the_part_for_unlikely_cases_leads_back() {
    let program = link(
        "
f:  mov rcx, [rdi]
    jne cold
a:  mov rax, [rdi+8]
end: ret
.type f, @function
.size f, .-f
cold: mov rcx, [rdi+16]
    jmp a
.type cold, @function
.size cold, .-cold
",
    );
    let (f, a) = (address(&program, "f"), address(&program, "a"));
    let end = address(&program, "end");
    let alone = Function::new(code(&program, "f"));
    assert_eq!(alone.block_at(end).unwrap().range.start, f);
    let both = alone.entered_from(code(&program, "cold"));
    assert_eq!(both.block_at(end).unwrap().range.start, a);
    // The image leads from the branch to that part.
    assert_eq!(block_at(&program, "end").range.start, a);
}

#[test]
fn another_function_may_share_its_tail() {
    for distance in [0, 1000] {
        let program = link(&format!(
            "
g:  lea rax, [rdi+rdx]
    jmp a
.type g, @function
.size g, .-g
.skip {distance}, 0x90
f:  mov rax, rdi
a:  mov [rdi], rcx
b:  mov [rsi], rcx
end: ret
.type f, @function
.size f, .-f
.skip {distance}, 0x90
h:  jne end
    call b
    ret
.type h, @function
.size h, .-h
"
        ));
        let alone = Function::new(code(&program, "f"));
        let [f, a, b, end] = ["f", "a", "b", "end"].map(|name| address(&program, name));
        assert_eq!(alone.block_at(end).unwrap().range.start, f);
        assert_eq!(block_at(&program, "a").range.start, a);
        assert_eq!(block_at(&program, "b").range.start, b);
        assert_eq!(block_at(&program, "end").range.start, end);
    }
}

/// A loop that is entered at its condition by a jump with a distance of 32 bits.
const ENTERED_AT_THE_CONDITION: &str = "
f:  mov rcx, [rdi]
.byte 0xe9
.long condition-.-4
body: lock add qword ptr [rsi], 1
condition: cmp qword ptr [rdi], 0
    je body
";

#[test]
fn a_loop_may_be_entered_at_its_condition() {
    let program = link(&format!(
        "{ENTERED_AT_THE_CONDITION}
    ret
.type f, @function
.size f, .-f
"
    ));
    let start = block_at(&program, "condition").range.start;
    assert_eq!(start, address(&program, "body"));
}

#[test]
fn a_table_may_lead_to_the_condition_of_a_loop() {
    let program = link(&format!(
        "{ENTERED_AT_THE_CONDITION}
    cmp edi, 1
    ja a
    jmp [table+rdi*8]
a:  ret
.type f, @function
.size f, .-f
.section .rodata
table: .quad a, condition
"
    ));
    let condition = address(&program, "condition");
    assert_eq!(block_at(&program, "condition").range.start, condition);
}

#[test]
fn another_function_may_lead_to_the_condition_of_a_loop() {
    for distance in [0, 1000] {
        for branch in ["jmp", "jne", "call"] {
            let program = link(&format!(
                "{ENTERED_AT_THE_CONDITION}
    ret
.type f, @function
.size f, .-f
.skip {distance}, 0x90
g:  {branch} condition
    ret
.type g, @function
.size g, .-g
"
            ));
            let condition = address(&program, "condition");
            assert_eq!(block_at(&program, "condition").range.start, condition);
        }
    }
}

#[test]
fn the_part_for_unlikely_cases_may_lead_to_the_condition_of_a_loop() {
    let program = link(&format!(
        "{ENTERED_AT_THE_CONDITION}
    jne away
    ret
away: jmp cold
.type f, @function
.size f, .-f
cold: mov rcx, [rdi+16]
    jmp condition
.type cold, @function
.size cold, .-cold
"
    ));
    let condition = address(&program, "condition");
    assert_eq!(block_at(&program, "condition").range.start, condition);
    let alone = Function::new(code(&program, "f"));
    let start = |function: Function<'_>| function.block_at(condition).unwrap().range.start;
    assert_eq!(start(alone.clone()), address(&program, "body"));
    assert_eq!(start(alone.entered_from(code(&program, "cold"))), condition);
}

fn check(source: &str) {
    let program = link(source);
    for (at, start) in [
        ("a", "a"),
        ("other", "a"),
        ("b", "b"),
        ("c", "c"),
        ("end", "c"),
    ] {
        let block = block_at(&program, at);
        assert_eq!(block.range.start, address(&program, start), "at {at}");
    }
    // Without the table any instruction may be a target.
    let blind = Function::new(code(&program, "f"));
    let other = address(&program, "other");
    assert_eq!(blind.block_at(other).unwrap().range.start, other);
}

fn block_at(program: &[u8], label: &str) -> Block {
    let image = Image::parse(program).unwrap();
    let at = address(program, label);
    Function::in_image(&image, at)
        .unwrap()
        .block_at(at)
        .unwrap()
}

fn code<'a>(program: &'a [u8], name: &str) -> Code<'a> {
    let image = Image::parse(program).unwrap();
    let bounds = image.function_at(address(program, name)).unwrap();
    Code {
        start: bounds.start,
        bytes: image.code(bounds).unwrap(),
    }
}

fn address(program: &[u8], name: &str) -> Svma {
    let file = object::File::parse(program).unwrap();
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
