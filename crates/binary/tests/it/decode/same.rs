//! Code of two builds: the same but for addresses, or not.

use hitm_binary::decode::{Code, Reference, compare};
use hitm_model::Svma;

/// Two pieces of code at 0x1000 and 0x2000; every place of the new build is 0x1000 further on than in the old one.
fn check(old: &[u8], new: &[u8]) -> Result<u64, &'static str> {
    let code = |start: u64, bytes| Code {
        start: Svma(start),
        bytes,
    };
    let is_address = |old: Svma, new: Svma| old.0 >= 0x1000 && new.0 >= 0x1000;
    let same = |reference: Reference| reference.new.0.wrapping_sub(reference.old.0) == 0x1000;
    let comparison = compare(code(0x1000, old), code(0x2000, new), &is_address, &same);
    match comparison.difference {
        None => Ok(comparison.addresses),
        Some(difference) => Err(difference.why),
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
    // mov eax, [rdi*4 + 0x4000]: a table is one.
    let table = |high: u8| [0x8b, 0x04, 0xbd, 0, high, 0, 0];
    assert_eq!(check(&table(0x40), &table(0x50)), Ok(1));
    assert_eq!(check(&table(0x40), &table(0x51)), Err("another offset"));
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
