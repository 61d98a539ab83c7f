//! Code of two builds: the same but for addresses, or not.

use hitm_binary::decode::{Code, Likeness, PlaceUse, Places, Reference, compare};
use hitm_model::Svma;

/// Every place of the new build is 0x1000 further on than in the old one. Thread-locals moved by 8 bytes, and there are
/// 0x100 bytes of them. What is at 0x1800 has other bytes in the new build.
struct Moved;

impl Places for Moved {
    fn are_addresses(&self, old: Svma, new: Svma) -> bool {
        (0x1000..0x1_0000).contains(&old.0) && (0x1000..0x1_0000).contains(&new.0)
    }

    fn likeness(&self, reference: Reference) -> Likeness {
        if reference.new.0.wrapping_sub(reference.old.0) != 0x1000 {
            return Likeness::Other;
        }
        match (reference.old.0, reference.how) {
            (0x1800, PlaceUse::Address) => Likeness::OtherContents,
            (0x1800, _) => Likeness::Other,
            _ => Likeness::Same,
        }
    }

    fn same_thread_local(&self, old: i64, new: i64) -> Option<bool> {
        let known = |distance: i64| (-0x100..0).contains(&distance);
        (known(old) && known(new)).then_some(old - new == 8)
    }
}

/// Two pieces of code at 0x1000 and 0x2000: how many addresses differ, or why they do not compare.
fn check(old: &[u8], new: &[u8]) -> Result<u64, &'static str> {
    let code = |start: u64, bytes| Code {
        start: Svma(start),
        bytes,
    };
    let comparison = compare(code(0x1000, old), code(0x2000, new), &Moved);
    match (comparison.difference, comparison.contents) {
        (None, None) => Ok(comparison.addresses),
        (None, Some(_)) => Err("other constants"),
        (Some(difference), _) => Err(difference.why),
    }
}

#[test]
fn relative_addresses() {
    // mov eax, [rip + 0x100]: what it reads moved with the code.
    let load = |distance: u8| [0x8b, 0x05, distance, 0x01, 0, 0, 0xc3];
    assert_eq!(check(&load(0), &load(0)), Ok(1));
    assert_eq!(
        check(&load(0), &load(4)),
        Err("an access of something else")
    );
    // It is no store, and no load into another register.
    assert_eq!(
        check(&load(0), &[0x89, 0x05, 0, 1, 0, 0, 0xc3]),
        Err("another instruction")
    );
    assert_eq!(
        check(&load(0), &[0x8b, 0x0d, 0, 1, 0, 0, 0xc3]),
        Err("another register")
    );
}

#[test]
fn numbers_and_offsets() {
    // mov eax, 5
    assert_eq!(check(&[0xb8, 5, 0, 0, 0], &[0xb8, 5, 0, 0, 0]), Ok(0));
    assert_eq!(
        check(&[0xb8, 5, 0, 0, 0], &[0xb8, 6, 0, 0, 0]),
        Err("another number")
    );
    // mov edi, 0x4000: an address, where both are places of their files.
    assert_eq!(check(&[0xbf, 0, 0x40, 0, 0], &[0xbf, 0, 0x50, 0, 0]), Ok(1));
    assert_eq!(
        check(&[0xbf, 0, 0x40, 0, 0], &[0xbf, 8, 0x50, 0, 0]),
        Err("another number")
    );
    // mov eax, [rdi + 8]: a field is no place.
    assert_eq!(
        check(&[0x8b, 0x47, 8], &[0x8b, 0x47, 16]),
        Err("another offset")
    );
    // mov eax, [0x4000], at the same address as before: what is there now is something else.
    let fixed = |high: u8| [0x8b, 0x04, 0x25, 0, high, 0, 0];
    assert_eq!(
        check(&fixed(0x40), &fixed(0x40)),
        Err("an access of something else")
    );
    assert_eq!(check(&fixed(0x40), &fixed(0x50)), Ok(1));
    // mov eax, [rdi*4 + 0x4000]: a table is one.
    let table = |high: u8| [0x8b, 0x04, 0xbd, 0, high, 0, 0];
    assert_eq!(check(&table(0x40), &table(0x50)), Ok(1));
    assert_eq!(check(&table(0x40), &table(0x51)), Err("another offset"));
}

#[test]
fn thread_locals() {
    let distance = |n: i8| i32::from(n).to_le_bytes();
    // mov eax, fs:[n]
    let load = |n: i8| [&[0x64, 0x8b, 0x04, 0x25][..], &distance(n)].concat();
    assert_eq!(check(&load(-8), &load(-16)), Ok(1));
    assert_eq!(
        check(&load(-8), &load(-24)),
        Err("an access of another thread-local")
    );
    // At the same distance there is another one now.
    assert_eq!(
        check(&load(-8), &load(-8)),
        Err("an access of another thread-local")
    );
    // mov rax, fs:[0x28]: the canary is none.
    assert_eq!(check(&load(0x28), &load(0x28)), Ok(0));
    assert_eq!(
        check(&load(0x28), &load(0x30)),
        Err("an access of another thread-local")
    );
    // mov rax, fs:[0]; lea rcx, [rax + n]: by the thread's pointer in a register.
    let pointer = [0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0];
    let lea = |n: i8| [&pointer[..], &[0x48, 0x8d, 0x48, n.cast_unsigned()]].concat();
    assert_eq!(check(&lea(-8), &lea(-16)), Ok(1));
    assert_eq!(check(&lea(-8), &lea(-24)), Err("another offset"));
    // lea rcx, [rbx + n]: a field, whatever else the function does.
    let field = |n: i8| [&pointer[..], &[0x48, 0x8d, 0x4b, n.cast_unsigned()]].concat();
    assert_eq!(check(&field(-8), &field(-16)), Err("another offset"));
    // mov rax, fs:[0]; add rax, n; the number is one byte long or four.
    let short = |n: i8| [&pointer[..], &[0x48, 0x83, 0xc0, n.cast_unsigned()]].concat();
    let long = |n: i32| [&pointer[..], &[0x48, 0x05], &n.to_le_bytes()].concat();
    assert_eq!(check(&short(-8), &short(-16)), Ok(1));
    assert_eq!(check(&short(-8), &short(-17)), Err("another number"));
    assert_eq!(check(&long(-200), &long(-208)), Ok(1));
    // Without a thread-local in sight it is a number.
    let plain = |n: i8| [0x48, 0x83, 0xc0, n.cast_unsigned()];
    assert_eq!(check(&plain(-8), &plain(-16)), Err("another number"));
}

#[test]
fn constants() {
    // lea rdi, [0x1800]; mov eax, [0x1800]: pointing to other bytes is not the same as to read them.
    let to = |opcode: u8, modrm: u8, prefix: &[u8]| {
        let len = prefix.len() as i32 + 6;
        [prefix, &[opcode, modrm], &(0x800 - len).to_le_bytes()].concat()
    };
    let lea = to(0x8d, 0x3d, &[0x48]);
    assert_eq!(check(&lea, &lea), Err("other constants"));
    let load = to(0x8b, 0x05, &[]);
    assert_eq!(check(&load, &load), Err("an access of something else"));
}

#[test]
fn branches() {
    // jmp to the end, short and near, with padding between: the same instruction is reached.
    let short = [0xeb, 0x01, 0x90, 0xc3];
    let near = [0xe9, 0x00, 0, 0, 0, 0xc3];
    assert_eq!(check(&short, &near), Ok(0));
    // je over one instruction or over two.
    let over = |n: u8| [0x74, n, 0x50, 0x51, 0xc3];
    assert_eq!(check(&over(1), &over(1)), Ok(0));
    assert_eq!(check(&over(1), &over(2)), Err("a branch to another place"));
    // call of what is elsewhere.
    let call = |distance: u8| [0xe8, distance, 1, 0, 0, 0xc3];
    assert_eq!(check(&call(0), &call(0)), Ok(1));
    assert_eq!(
        check(&call(0), &call(8)),
        Err("a call of or a jump to something else")
    );
}

#[test]
fn prefixes_length_and_bytes_that_are_no_code() {
    // inc dword [rdi], with and without lock.
    assert_eq!(
        check(&[0xff, 0x07], &[0xf0, 0xff, 0x07]),
        Err("another instruction")
    );
    assert_eq!(check(&[0xc3], &[0xc3, 0xc3]), Err("one of them goes on"));
    assert_eq!(check(&[0x06, 0xc3], &[0x06, 0xc3]), Ok(0));
    assert_eq!(
        check(&[0x06, 0xc3], &[0x07, 0xc3]),
        Err("bytes that are no instruction differ")
    );
    assert_eq!(check(&[], &[]), Ok(0));
}
