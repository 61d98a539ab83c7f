//! Which lines things are on, by their real addresses.

use std::ptr;
use std::sync::atomic::AtomicU64;

use hitm_counters::line::{APART, TOGETHER, of_this_machine};
use hitm_counters::{
    Counter, Counters, Isolated, PerThread, are_on_one_line, assert_apart, assert_isolated,
    assert_same_line, check_apart, check_isolated,
};

#[derive(Counters)]
struct Three {
    a: Counter,
    b: Counter,
    c: [Counter; 30],
}

#[test]
fn blocks_of_two_threads_have_no_line_in_common_and_are_packed() {
    let stats = PerThread::<Three>::new();
    let claims: Vec<_> = (0..9).map(|i| stats.claim(&i.to_string())).collect();
    for (i, one) in claims.iter().enumerate() {
        assert_eq!(ptr::from_ref(&**one).addr() % APART, 0);
        for other in &claims[..i] {
            assert_eq!(check_apart(&**one, &**other, APART), Ok(()));
        }
    }
    assert_eq!(size_of::<Three>(), 32 * 8);
    let most = 9 * (size_of::<Three>() + 64) * 2 + 1024;
    assert!(stats.bytes() < most, "{} bytes", stats.bytes());
}

#[test]
fn a_thousand_counters_cost_a_thousand_words_per_thread() {
    const THREADS: usize = 64;
    let stats = PerThread::<[Counter; 1144]>::with_capacity(THREADS);
    let packed = THREADS * (1144 * 8_usize).next_multiple_of(APART);
    assert!(stats.bytes() < packed + THREADS * 128, "{}", stats.bytes());
}

#[test]
fn isolated_values_are_alone_wherever_they_are() {
    let array = [const { Isolated::new(AtomicU64::new(0)) }; 4];
    for pair in array.windows(2) {
        assert_eq!(check_apart(&pair[0], &pair[1], APART), Ok(()));
    }
    let boxed = Box::new(Isolated::new([1_u8; 200]));
    assert_eq!(check_isolated(&*boxed, APART), Ok(()));
    assert_eq!(
        size_of::<Isolated<[u8; 200]>>(),
        200_usize.next_multiple_of(APART)
    );
    assert_eq!(Isolated::from(7).into_inner(), 7);
}

struct Mixed {
    id: u32,
    hot: Isolated<u64>,
    other: Isolated<u64>,
}
assert_isolated!(Mixed, hot);
assert_isolated!(Mixed, hot; id, other);
assert_apart!(Mixed, hot, other);
assert_apart!(Mixed, hot, id);

/// Apart although nothing is aligned: a whole block of bytes lies between them.
#[repr(C)]
struct Spread {
    first: u8,
    gap: [u8; APART],
    last: u8,
}
assert_apart!(Spread, first, last);

#[repr(align(32))]
struct Together {
    lock: u32,
    guarded: u64,
}
assert_same_line!(Together, lock, guarded);

#[test]
fn run_time_checks_agree_with_the_compile_time_ones() {
    let mixed = Mixed {
        id: 1,
        hot: Isolated::new(2),
        other: Isolated::new(3),
    };
    assert_eq!(check_isolated(&mixed.hot, APART), Ok(()));
    assert_eq!(check_apart(&mixed.hot, &mixed.id, APART), Ok(()));
    assert_eq!(check_apart(&mixed.hot, &mixed.other, APART), Ok(()));
    let spread = Spread {
        first: 1,
        gap: [0; APART],
        last: 2,
    };
    assert_eq!(check_apart(&spread.first, &spread.last, APART), Ok(()));
    assert!(check_apart(&spread.first, &spread.gap, APART).is_err());
    let together = Together {
        lock: 1,
        guarded: 2,
    };
    assert!(are_on_one_line(&together.lock, &together.guarded, TOGETHER));
    let error = check_apart(&together.lock, &together.guarded, 64).unwrap_err();
    assert!(
        error.to_string().contains("share a line of 64 bytes"),
        "{error}"
    );
    assert!(
        check_apart(&1, &2, 0).is_err(),
        "a line of no bytes is no line"
    );
    assert_eq!(check_apart(&(), &(), 64), Ok(()));
}

#[test]
fn this_machine_has_no_larger_lines_than_assumed() {
    match of_this_machine() {
        Ok(line) => assert!(
            (TOGETHER..=APART).contains(&line),
            "{line} is not from {TOGETHER} to {APART}"
        ),
        Err(error) => println!("SKIPPED: the machine does not tell its line size: {error}"),
    }
}
