//! Types → what `hitm check` suspects of objects on the heap, text cases for each rule: one that fires, one that must not.
//!
//! ```text
//! roots main A B*               where threads begin; * where several threads begin with one
//! type Stats 16 align 8         a type, its bytes and its alignment; `align ?` where that is not known
//! type Slot 8 pad _pad          with a member that is there as padding
//! type Slot 8 in Vec<Slot>      the element of a list
//! .sent 8..16                   an atomic of the type above
//! .lock 16..56 lock             a lock
//! .lanes[] 0..8 every 64 by 4   in an array: the distance and the number of elements
//! A a 8 hot                     A changes what is 8 bytes behind a pointer, atomically, in a loop
//! A W 0 hot [8]                 A writes one of elements of 8 bytes
//! block Slot 64 align 64 at 0 by malloc 16    a type, where it begins in a block, and what the allocator promises
//! by A W hot                    A writes that block
//! ```
//!
//! The answer has a line for each suspicion.

use hitm_analysis::check::{
    AllocatedFacts, PointerUse, RootFacts, TypeFacts, TypeHazard, UseSite, WordFacts,
    judge_alignment, judge_types,
};
use hitm_binary::program::Certainty;
use hitm_model::{AccessKind, LineSize, Svma};

#[derive(Default)]
struct Case {
    names: Vec<String>,
    roots: Vec<RootFacts>,
    types: Vec<TypeFacts>,
    uses: Vec<PointerUse>,
    allocated: Vec<AllocatedFacts>,
}

fn kind(text: &str) -> AccessKind {
    match text {
        "R" => AccessKind::Read,
        "W" => AccessKind::Write,
        "U" => AccessKind::Update,
        "a" => AccessKind::Atomic,
        other => panic!("no kind {other}"),
    }
}

/// What is behind a word.
fn behind<'a>(words: &[&'a str], word: &str) -> Option<&'a str> {
    let at = words.iter().position(|it| *it == word)?;
    words.get(at + 1).copied()
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("no number {text}"))
}

impl Case {
    fn parse(text: &str) -> Self {
        let mut case = Self::default();
        for (at, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["roots", roots @ ..] => case.roots(roots),
                ["type", name, size, rest @ ..] => case.types.push(TypeFacts {
                    name: (*name).to_owned(),
                    size: number(size),
                    align: behind(rest, "align").and_then(|align| align.parse().ok()),
                    words: Vec::new(),
                    padding: behind(rest, "pad").map(str::to_owned),
                    in_list: behind(rest, "in").map(str::to_owned),
                    declared: None,
                }),
                [path, range, rest @ ..] if path.starts_with('.') => {
                    let (from, to) = range.split_once("..").unwrap();
                    let every = behind(rest, "every").map(number);
                    let ty = case.types.last_mut().unwrap();
                    ty.words.push(WordFacts {
                        path: (*path).to_owned(),
                        offset: number(from),
                        size: number(to) - number(from),
                        lock: rest.contains(&"lock"),
                        repeated: every.zip(behind(rest, "by").map(number)),
                    });
                }
                ["block", name, size, rest @ ..] => {
                    let by = rest.iter().position(|it| *it == "by").unwrap();
                    case.allocated.push(AllocatedFacts {
                        name: (*name).to_owned(),
                        size: number(size),
                        align: number(behind(rest, "align").unwrap()),
                        at: number(behind(rest, "at").unwrap()),
                        promised: number(rest[by + 2]),
                        allocator: rest[by + 1].to_owned(),
                        site: Svma(0x1000),
                        declared: None,
                        uses: Vec::new(),
                    });
                }
                ["by", root, kind_of, rest @ ..] => {
                    let root = (*root != "?").then(|| case.root(root));
                    let site = UseSite {
                        function: Svma(0x1000),
                        instruction: Svma(at as u64),
                        kind: kind(kind_of),
                        hot: rest.contains(&"hot"),
                        chosen: false,
                        certainty: Certainty::Run,
                    };
                    case.allocated.last_mut().unwrap().uses.push((root, site));
                }
                [root, kind_of, offset, rest @ ..] => {
                    let stride = rest.iter().find_map(|it| it.strip_prefix('['));
                    let root = case.root(root);
                    case.uses.push(PointerUse {
                        root,
                        function: Svma(0x1000),
                        instruction: Svma(at as u64),
                        kind: kind(kind_of),
                        hot: rest.contains(&"hot"),
                        offset: offset.parse().unwrap(),
                        stride: stride.map_or(0, |it| it.trim_end_matches(']').parse().unwrap()),
                    });
                }
                other => panic!("{other:?}"),
            }
        }
        case
    }

    fn roots(&mut self, roots: &[&str]) {
        for root in roots {
            self.names.push(root.trim_end_matches('*').to_owned());
            self.roots.push(RootFacts {
                main: *root == "main",
                many: root.ends_with('*'),
            });
        }
    }

    fn root(&self, name: &str) -> u16 {
        let at = self.names.iter().position(|it| it == name);
        u16::try_from(at.unwrap_or_else(|| panic!("no root {name}"))).unwrap()
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let case = Case::parse(text);
    let line = LineSize::ASSUMED;
    let mut lines: Vec<String> = Vec::new();
    for found in judge_types(line, &case.roots, &case.types, &case.uses) {
        let ty = &case.types[found.ty];
        let what = match found.kind {
            TypeHazard::Words => "words",
            TypeHazard::Elements => "elements",
            TypeHazard::Padding => "padding",
        };
        let parts = found.words.iter().zip(&found.uses).map(|(&word, uses)| {
            let mut by: Vec<&str> = uses
                .iter()
                .map(|&it| case.names[usize::from(case.uses[it].root)].as_str())
                .collect();
            by.dedup();
            match by.is_empty() {
                true => ty.words[word].path.clone(),
                false => format!("{} by {}", ty.words[word].path, by.join(" ")),
            }
        });
        let parts: Vec<String> = parts.collect();
        let (confidence, parts) = (found.confidence, parts.join(", "));
        lines.push(format!("{confidence} {what} {}: {parts}", ty.name));
    }
    for found in judge_alignment(line, &case.roots, &case.allocated) {
        let one = &case.allocated[found.allocated];
        lines.push(format!(
            "{} {} gets {} of {}",
            found.confidence, one.name, found.promised, one.align
        ));
    }
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    assert_eq!(lines, expected, "{text}");
}

const STATS: &str = "roots main A B\n type Stats 16 align 8\n .received 0..8\n .sent 8..16\n";

#[track_caller]
fn stats(uses: &str, expected: &str) {
    check(&format!("{STATS}{uses}"), expected);
}

#[test]
fn two_words_that_different_threads_change() {
    let named = "medium words Stats: .received by A, .sent by B";
    stats("A a 0 hot\n B a 8 hot", named);
    // Behind the two counts of an `Arc`.
    stats("A a 16 hot\n B a 24 hot", named);
    // One has one to itself, and the other thread both: who needs both is helped by nothing.
    let seen = "low words Stats: .received, .sent";
    stats("A a 0 hot\n A a 8 hot\n B a 8 hot", seen);
    stats("A a 0 hot\n B a 0 hot\n A a 8 hot\n B a 8 hot", seen);
    stats("A a 0 hot\n A a 8 hot", seen);
    // What is not in a loop, not atomic, an element, or somewhere else says nothing of these words.
    stats("A a 0\n B a 8 hot", seen);
    stats("A W 0 hot\n B W 8 hot", seen);
    stats("A a 0 hot [8]\n B a 8 hot", seen);
    stats("A a 0 hot\n B a 64 hot", seen);
    stats("A a -8 hot\n B a 8 hot", seen);
    stats("", seen);
}

#[test]
fn words_on_lines_of_their_own() {
    let apart = "roots main A B\n type Stats 128 align 64\n .received 0..8\n .sent 64..72\n";
    check(&format!("{apart} A a 0 hot\n B a 64 hot"), "");
    // 56 bytes apart are on two lines where the type begins with a line, and may be on one where it does not.
    let near = |align: &str| {
        format!(
            "roots main A B\n type Stats 128 align {align}\n .received 8..16\n .sent 64..72\n A a 8 hot\n B a 64 hot"
        )
    };
    check(&near("64"), "");
    check(&near("8"), "medium words Stats: .received by A, .sent by B");
    check(&near("?"), "medium words Stats: .received by A, .sent by B");
    check(
        "roots main A\n type One 8 align 8\n .hits 0..8\n A a 0 hot",
        "",
    );
    // Of three only those on one line.
    check(
        "roots main A B\n type Three 128 align 64\n .a 0..8\n .b 8..16\n .c 64..72\n A a 0 hot\n B a 8 hot\n B a 64 hot",
        "medium words Three: .a by A, .b by B",
    );
}

#[test]
fn two_locks() {
    let locks =
        "roots main A B\n type Shared 80 align 8\n .requests 0..40 lock\n .replies 40..80 lock\n";
    check(
        &format!("{locks} A a 0 hot\n B a 40 hot"),
        "medium words Shared: .requests by A, .replies by B",
    );
    // A mutex is taken anywhere in it.
    check(
        &format!("{locks} A a 8 hot\n B a 44 hot"),
        "medium words Shared: .requests by A, .replies by B",
    );
    check(locks, "low words Shared: .requests, .replies");
}

#[test]
fn lists_of_small_elements() {
    let list = "roots main A B*\n type Slot 8 in Vec<Slot>\n .hits 0..8\n";
    check(
        &format!("{list} B a 0 hot [8]"),
        "medium elements Slot: .hits by B",
    );
    check(
        &format!("{list} B W 0 hot [8]"),
        "low elements Slot: .hits by B",
    );
    // One thread, no loop, other elements.
    check(&format!("{list} A a 0 hot [8]"), "low elements Slot: .hits");
    check(&format!("{list} B a 0 [8]"), "low elements Slot: .hits");
    check(
        &format!("{list} B a 0 hot [16]"),
        "low elements Slot: .hits",
    );
    check(&format!("{list} B R 0 hot [8]"), "low elements Slot: .hits");
    // As large as a line, and without a size.
    check(
        "roots main B*\n type Slot 64 in Vec<Slot>\n .hits 0..8\n B a 0 hot [64]",
        "",
    );
    check(
        "roots main B*\n type Slot 0 in Vec<Slot>\n .hits 0..8\n B a 0 hot [8]",
        "",
    );
}

#[test]
fn padding_that_may_begin_anywhere() {
    let padded = |size: &str, align: &str, pad: &str| {
        format!("roots main A\n type Slot {size} align {align} {pad}\n .hits 0..8")
    };
    check(&padded("64", "8", "pad _pad"), "low padding Slot: .hits");
    check(
        &padded("128", "8", "pad reserved"),
        "low padding Slot: .hits",
    );
    check(&padded("64", "64", "pad _pad"), "");
    check(&padded("64", "?", "pad _pad"), "");
    check(&padded("56", "8", "pad _pad"), "");
    check(&padded("64", "8", ""), "");
    check("roots main A\n type Slot 64 align 8 pad _pad", "");
}

#[test]
fn alignment_that_the_allocator_is_not_told() {
    let block = |facts: &str| format!("roots main A\n block Slot 64 {facts}\n by A a hot");
    let loose = "medium Slot gets 16 of 64";
    check(&block("align 64 at 0 by malloc 16"), loose);
    check(
        &block("align 128 at 0 by malloc 16"),
        "medium Slot gets 16 of 128",
    );
    check(&block("align 64 at 64 by malloc 16"), loose);
    // The block is told, and the type begins behind a header.
    check(
        &block("align 64 at 8 by aligned_alloc 64"),
        "medium Slot gets 8 of 64",
    );
    check(&block("align 64 at 64 by aligned_alloc 64"), "");
    check(&block("align 64 at 0 by aligned_alloc 64"), "");
    check(&block("align 64 at 0 by valloc 4096"), "");
    // It keeps whole lines for itself, if not the two that it asks for.
    check(&block("align 128 at 0 by aligned_alloc 64"), "");
    // Less than a line is asked for: nothing of lines.
    check(&block("align 32 at 0 by malloc 16"), "");
    check(&block("align 8 at 0 by malloc 16"), "");
}

#[test]
fn alignment_that_nobody_needs() {
    let block = "roots main A\n block Slot 64 align 64 at 0 by malloc 16\n";
    let low = "low Slot gets 16 of 64";
    check(block, low);
    check(&format!("{block} by main a hot"), low);
    check(&format!("{block} by A R hot"), low);
    check(&format!("{block} by ? a hot"), low);
    check(
        &format!("{block} by main W\n by A W"),
        "medium Slot gets 16 of 64",
    );
}
