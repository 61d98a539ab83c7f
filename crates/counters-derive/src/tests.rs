//! What the derive refuses, and what it says then.

use crate::expand;

/// The one error of a declaration, and the source that it is at.
fn check(declaration: &str, said: &str, at: &str) {
    let input = syn::parse_str(declaration).unwrap();
    let error = expand(&input).unwrap_err();
    let all: Vec<String> = error.clone().into_iter().map(|e| e.to_string()).collect();
    assert_eq!(all.len(), 1, "{declaration}: {all:?}");
    assert!(all.concat().starts_with(said), "{declaration}: {all:?}");
    assert_eq!(error.span().source_text().as_deref(), Some(at));
}

#[test]
fn what_has_no_named_counters_is_refused() {
    check("struct E {}", "a block of counters has at least one", "E");
    check("struct E;", "a block of counters needs named fields", "E");
    check(
        "struct E(Counter);",
        "a block of counters needs named fields",
        "E",
    );
    check("enum E { A }", "a block of counters is a struct", "E");
    check(
        "union E { a: Counter }",
        "a block of counters is a struct",
        "E",
    );
}

#[test]
fn parameters_are_refused() {
    let said = "a block of counters has no parameters";
    check("struct E<T> { a: T }", said, "T");
    check("struct E<'a> { a: &'a Counter }", said, "'a");
    check(
        "struct E<const N: usize> { a: [Counter; N] }",
        said,
        "const N: usize",
    );
}

#[test]
fn options_that_are_not_known_are_refused() {
    check(
        "#[counters(value = X)] struct E { a: Counter }",
        "a struct of counters knows",
        "value",
    );
    check(
        "struct E { #[counters(help = \"x\")] a: Counter }",
        "a field knows",
        "help",
    );
}

#[test]
fn a_field_that_is_no_counter_is_one_error_at_its_type() {
    let check = |ty: &str, at: &str| {
        check(
            &format!("struct E {{ good: Counter, bad: {ty} }}"),
            "this is no counter",
            at,
        );
    };
    check("u64", "u64");
    check(
        "std::sync::atomic::AtomicU64",
        "std::sync::atomic::AtomicU64",
    );
    check("[[i64; 3]; 2]", "i64");
    check("Option<Counter>", "Option<Counter>");
    check("(Counter, Counter)", "(Counter, Counter)");
    check("&'static Counter", "&'static Counter");
    check("fn() -> Counter", "fn() -> Counter");
}

#[test]
fn names_that_may_be_counters_are_left_to_the_compiler() {
    let check = |ty: &str| {
        let input = syn::parse_str(&format!("struct E {{ a: {ty} }}")).unwrap();
        assert!(expand(&input).is_ok(), "{ty}");
    };
    check("Counter");
    check("mine::Block");
    check("[Counter; { 1 + 1 }]");
    check("Histogram<1, { buckets(1, 8) }>");
    check("Pair<Counter>");
    check("Cell");
}
