//! Facts → what `hitm check` suspects, text cases for each rule: one that fires, and one that must not.
//!
//! ```text
//! roots main A B*         where threads begin; * where several threads begin with one
//! a 0..8                  an object and its addresses, from the beginning of a line on
//! A W a hot               A writes all of it in a loop
//! B R a.8..12             B reads bytes 8 to 12 of it, once
//! ? a b hot               an atomic change by code of which nobody knows who calls it
//! B a c[8] by-thread hot  of elements of 8 bytes, the one of its thread
//! B W a hot #1            the instruction 1
//! A W a hot under:1       while it holds the lock 1; under:~1 if others may hold it too, as readers
//! A W a hot called        a call leads there that may be made or not; guessed: a function whose address is taken
//! apart A B               A is waited for before B is started
//! either 1 2              of the instructions 1 and 2 a call executes at most one
//! ```
//!
//! Kinds are R, W, U (read and written), a (atomic) and L (a lock is taken). The answer has a line for each suspicion, and
//! one beginning with `none` for what looks like one.

use hitm_analysis::check::{Facts, Field, Held, ObjectFacts, RootFacts, Use, UseSite, judge};
use hitm_binary::program::{Certainty, HeldLock};
use hitm_model::{AccessKind, LineSize, Svma};
use rustc_hash::FxHashSet;

const BASE: u64 = 0x4000;

struct Case {
    facts: Facts,
    roots: Vec<String>,
    either: Vec<(u64, u64)>,
}

fn range(text: &str) -> (u64, u64) {
    let (from, to) = text.split_once("..").unwrap();
    (from.parse().unwrap(), to.parse().unwrap())
}

impl Case {
    fn parse(text: &str) -> Self {
        let mut case = Self {
            facts: Facts {
                line: LineSize::ASSUMED,
                roots: Vec::new(),
                apart: FxHashSet::default(),
                objects: Vec::new(),
                uses: Vec::new(),
            },
            roots: Vec::new(),
            either: Vec::new(),
        };
        for (number, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [] => {}
                ["roots", roots @ ..] => case.roots(roots),
                ["apart", first, second] => {
                    let number = |name: &str| {
                        let number = case.roots.iter().position(|it| it == name).unwrap();
                        u16::try_from(number).unwrap()
                    };
                    let pair = (number(first), number(second));
                    case.facts.apart.insert(pair);
                }
                ["either", first, second] => {
                    let pair = (first.parse().unwrap(), second.parse().unwrap());
                    case.either.push(pair);
                }
                [name, bytes] => {
                    let (from, to) = range(bytes);
                    case.facts.objects.push(ObjectFacts {
                        name: (*name).to_owned(),
                        start: Svma(BASE + from),
                        size: to - from,
                        library: name.starts_with("std::"),
                    });
                }
                [root, kind, place, flags @ ..] => {
                    case.used(number as u64 + 100, root, kind, place, flags);
                }
                other => panic!("{other:?}"),
            }
        }
        case
    }

    fn roots(&mut self, roots: &[&str]) {
        for root in roots {
            self.roots.push(root.trim_end_matches('*').to_owned());
            self.facts.roots.push(RootFacts {
                main: *root == "main",
                many: root.ends_with('*'),
            });
        }
    }

    fn used(&mut self, number: u64, root: &str, kind: &str, place: &str, flags: &[&str]) {
        let root = (root != "?").then(|| {
            let number = self.roots.iter().position(|it| it == root).unwrap();
            u16::try_from(number).unwrap()
        });
        let end = place.find(['.', '[']).unwrap_or(place.len());
        let name = &place[..end];
        let object = self.facts.objects.iter().position(|it| it.name == name);
        let object = object.unwrap_or_else(|| panic!("no object {name}"));
        let ObjectFacts { start, size, .. } = self.facts.objects[object];
        let rest = &place[end..];
        let (at, size, stride) = match rest.chars().next() {
            None => (start, size, 0),
            Some('.') => {
                let (from, to) = range(&rest[1..]);
                (start.wrapping_add(from), to - from, 0)
            }
            _ => {
                let stride: u32 = rest.trim_matches(['[', ']']).parse().unwrap();
                (start, u64::from(stride), stride)
            }
        };
        let has = |flag: &str| flags.contains(&flag);
        let named = flags.iter().find_map(|flag| flag.strip_prefix('#'));
        let instruction = named.map_or(number, |it| it.parse().unwrap());
        let kind_of = match kind {
            "R" => AccessKind::Read,
            "W" => AccessKind::Write,
            "U" => AccessKind::Update,
            "a" | "L" => AccessKind::Atomic,
            other => panic!("no kind {other}"),
        };
        let locks: Vec<HeldLock> = flags
            .iter()
            .filter_map(|flag| flag.strip_prefix("under:"))
            .map(|lock| HeldLock {
                address: Svma(lock.trim_start_matches('~').parse().unwrap()),
                shared: lock.starts_with('~'),
            })
            .collect();
        let (mut held, mut held_hot) = (Held::default(), Held::default());
        held.add(&locks);
        if has("hot") {
            held_hot.add(&locks);
        }
        self.facts.uses.push(Use {
            held,
            held_hot,
            root,
            object,
            at,
            size: u32::try_from(size).unwrap(),
            stride,
            by_thread: has("by-thread"),
            element_shared: has("shared-type"),
            sites: vec![UseSite {
                function: Svma(0x1000),
                instruction: Svma(instruction),
                kind: kind_of,
                hot: has("hot"),
                chosen: has("chosen"),
                certainty: match (has("called"), has("guessed")) {
                    (true, _) => Certainty::Called,
                    (_, true) => Certainty::Guessed,
                    _ => Certainty::Run,
                },
            }],
            locks: kind == "L",
        });
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let case = Case::parse(text);
    let either_or = |first: Svma, second: Svma| {
        let pair = (first.0, second.0);
        case.either.contains(&pair) || case.either.contains(&(pair.1, pair.0))
    };
    let (suspicions, explained) = judge(&case.facts, &either_or);
    let names = |fields: &[Field]| {
        let name = |field: &Field| {
            let object = &case.facts.objects[field.object];
            let from = field.range.start.offset_from(object.start).unwrap();
            match field.range.len() == object.size {
                true => object.name.clone(),
                false => format!("{}.{from}..{}", object.name, from + field.range.len()),
            }
        };
        fields.iter().map(name).collect::<Vec<_>>().join(" ")
    };
    let mut lines: Vec<String> = suspicions
        .iter()
        .map(|it| {
            format!(
                "{} {} {}: {}",
                it.confidence,
                it.rule,
                names(&it.fields),
                it.why
            )
        })
        .collect();
    lines.extend(
        explained
            .iter()
            .map(|it| format!("none {}: {}", names(&it.fields), it.why)),
    );
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .collect();
    assert_eq!(lines, expected, "{text}");
}

const TWO: &str = "roots main A B\n a 0..8\n b 8..16\n";
const MANY: &str = "roots main A*\n a 0..8\n b 8..16\n";

#[track_caller]
fn two(uses: &str, expected: &str) {
    check(&format!("{TWO}{uses}"), expected);
}

#[track_caller]
fn many(uses: &str, expected: &str) {
    check(&format!("{MANY}{uses}"), expected);
}

#[test]
fn two_owners() {
    let owners = "globals-share-line a b: different threads write them, each its own";
    two("A W a hot\n B W b hot", &format!("high {owners}"));
    two("A a a hot\n B U b hot", &format!("high {owners}"));
    // The main thread may be there only before and after.
    two("main W a hot\n B W b hot", &format!("medium {owners}"));
    two("A W a\n B W b hot", &format!("low {owners}"));
    two("? W a hot\n B W b hot", &format!("low {owners}"));
    two("A W a hot\n A W b hot", "");
    two("A R a hot\n B R b hot", "");
    // The next line.
    check(
        "roots main A B\n a 0..64\n b 64..72\n A W a.0..8 hot\n B W b hot",
        "",
    );
    // An object over two lines shares the second one.
    check(
        "roots main A B\n a 56..72\n b 72..80\n A W a hot\n B W b hot",
        "high globals-share-line a b: different threads write them, each its own",
    );
}

#[test]
fn under_one_lock() {
    const ONE: &str = "who touches them holds one and the same lock, so that only one thread at a time does, and the \
                       lock's own line has to move with it wherever they are";
    let none = format!("none a b: {ONE}");
    let owners = "high globals-share-line a b: different threads write them, each its own";
    two("A W a hot under:1\n B W b hot under:1", &none);
    two(
        "A W a hot under:1 under:2\n B W b hot under:3 under:2",
        &none,
    );
    two("A W a hot under:1\n B W b hot under:2", owners);
    two("A W a hot under:1\n B W b hot", owners);
    // Readers do not keep each other out, and writers do keep readers out.
    two("A W a hot under:~1\n B W b hot under:~1", owners);
    two("A W a hot under:~1\n B W b hot under:1", &none);
    // One touch without the lock is enough, if it is in a loop.
    two("A W a hot under:1\n A R a hot\n B W b hot under:1", owners);
    two("A W a hot under:1\n A W a\n B W b hot under:1", &none);
    two(
        "A W a under:1\n A R a\n B W b hot under:1",
        "low globals-share-line a b: different threads write them, each its own",
    );
    many(
        "A W a hot under:1\n A W b hot under:1",
        &format!("none a b: {ONE}"),
    );
    let array = "roots main A*\n c 0..64\n";
    check(
        &format!("{array} A W c[8] by-thread hot under:1"),
        &format!("none c: {ONE}"),
    );
    check(
        &format!("{array} A W c[8] by-thread hot under:~1"),
        "high elements-share-line c: which element is written depends on the thread",
    );
}

#[test]
fn one_after_another() {
    let three = "roots main A B C\n a 0..8\n b 8..16\n apart A B\n";
    check(
        &format!("{three} A W a hot\n B W b hot"),
        "none a b: one of the threads is waited for before the other one is started",
    );
    check(
        &format!("{three} A W a hot\n B W b hot\n C W b hot"),
        "high globals-share-line a b: different threads write them, each its own",
    );
}

#[test]
fn what_is_not_sure_to_be_reached() {
    let owners = "globals-share-line a b: different threads write them, each its own";
    two("A W a hot called\n B W b hot", &format!("medium {owners}"));
    two(
        "A W a hot called\n B W b hot called",
        &format!("medium {owners}"),
    );
    two("A W a hot\n B W b hot guessed", &format!("low {owners}"));
    // One access that is sure is enough.
    two(
        "A W a hot guessed\n A W a hot\n B W b hot",
        &format!("high {owners}"),
    );
    // Of a reader it is the read that counts.
    let reader = "read-beside-written a b: one thread reads what is beside what another thread writes, and does not need \
                  that";
    two("A W a hot\n B R b hot called", &format!("medium {reader}"));
    two("A W a hot\n B R b hot guessed", &format!("low {reader}"));
    // In a loop that is guessed, and once for sure.
    two(
        "A W a\n A W a hot guessed\n B W b hot",
        &format!("low {owners}"),
    );
    let array = "roots main A*\n c 0..64\n";
    let by_thread = "elements-share-line c: which element is written depends on the thread";
    check(
        &format!("{array} A W c[8] by-thread hot called"),
        &format!("medium {by_thread}"),
    );
    check(
        &format!("{array} A W c[8] by-thread hot guessed"),
        &format!("low {by_thread}"),
    );
}

#[test]
fn parts_of_one_object() {
    let object = "roots main A B\n a 0..32\n";
    check(
        &format!("{object} A W a.0..8 hot\n B W a.8..16 hot"),
        "high fields-share-line a.0..8 a.8..16: different threads write them, each its own",
    );
    // A copy of the whole says nothing about where its parts are, and uses all of them.
    check(
        &format!("{object} A W a.0..8 hot\n B W a.8..16 hot\n B R a.0..32 hot"),
        "high fields-share-line a.0..8 a.8..16: different threads write them, each its own",
    );
    check(
        &format!("{object} A W a.0..8 hot\n B R a.8..16 hot\n B R a.0..32 hot"),
        "none a.0..8 a.8..16: the same threads use both, so that a line of its own for each would not help",
    );
    // Overlapping accesses are one field.
    check(&format!("{object} A W a.0..8 hot\n B R a.4..8 hot"), "");
}

#[test]
fn a_reader_beside_a_writer() {
    let reader = "read-beside-written a b: one thread reads what is beside what another thread writes, and does not need \
                  that";
    two("A W a hot\n B R b hot", &format!("high {reader}"));
    two("A W a\n B R b hot", &format!("low {reader}"));
    // What is written at start-up by the main thread is read-mostly all the same.
    two(
        "main W b\n A W a hot\n B R b hot",
        &format!("high {reader}"),
    );
    // Who waits for what another thread changes does not wait in vain.
    let message =
        "none a b: one thread writes what another one reads: that is communication, wherever it is";
    two("A W a hot\n A W b hot\n B R b hot", message);
    // Who needs both has nothing from a line of its own for each.
    let both =
        "none a b: the same threads use both, so that a line of its own for each would not help";
    two("A W a hot\n B R b hot\n B R a hot", both);
}

#[test]
fn shared_in_truth() {
    let both = "the same threads use both, so that a line of its own for each would not help";
    two(
        "A a a hot\n B a a hot\n A a b hot\n B a b hot",
        &format!("none a b: {both}"),
    );
    two(
        "A a a hot\n B a a hot\n B a b hot",
        "medium globals-share-line a b: one of them is written by several threads, the other one only by one of these",
    );
    check(
        "roots main A B\n a 0..8\n A a a hot\n B a a hot",
        "none a: one atomic that several threads change, with nothing beside it: true sharing, which padding cannot help",
    );
    check("roots main A B\n a 0..8\n A a a hot", "");
}

#[test]
fn a_lock_and_what_it_guards() {
    let guarded = "none a b: one is a lock and the other is what it guards: who takes the lock needs the data as well";
    two("A L a hot\n B L a hot\n A W b hot\n B W b hot", guarded);
    two("A L a hot\n B L a hot\n A W b hot", guarded);
    many("A L a hot\n A W b hot", guarded);
    // Without the lock itself there is no excuse.
    two(
        "A L a hot\n B W b hot",
        "high globals-share-line a b: different threads write them, each its own",
    );
}

#[test]
fn threads_that_begin_alike() {
    let either = "medium globals-share-line a b: several threads run this code, and each execution touches only one of \
                  them";
    many("A W a hot #1\n A W b hot #2\n either 1 2", either);
    let both =
        "none a b: the same threads use both, so that a line of its own for each would not help";
    many("A W a hot #1\n A W b hot #2", both);
    many(
        "A W a hot chosen #1\n A W b hot chosen #1",
        "medium globals-share-line a b: several threads run this instruction, which touches one of them or the other",
    );
    many(
        "A a a hot\n A R b hot",
        "medium read-beside-written a b: several threads write one of them all the time and read the other one, which \
         nobody changes",
    );
    // In one object, that its writer was missed is more likely.
    check(
        "roots main A*\n a 0..16\n A a a.0..8 hot\n A R a.8..16 hot",
        "low read-beside-written a.0..8 a.8..16: several threads write one of them all the time and read the other one, \
         which nobody changes",
    );
    // One thread only.
    two("A W a hot #1\n A W b hot #2\n either 1 2", "");
    // Nobody knows who calls it.
    many("? W a hot #1\n ? W b hot #2\n either 1 2", "");
    many("A W a #1\n A W b #2\n either 1 2", "");
}

#[test]
fn arrays_with_an_element_for_each_thread() {
    let array = "roots main A* B\n c 0..64\n";
    let by_thread = "elements-share-line c: which element is written depends on the thread";
    let shared =
        "elements-share-line c: several threads write elements, which are atomics or locks";
    let none = "none c: an array whose elements are smaller than a line; which element is written does not depend on the \
                thread";
    for (uses, expected) in [
        ("A W c[8] by-thread hot", format!("high {by_thread}")),
        ("A W c[8] by-thread", format!("low {by_thread}")),
        ("B W c[8] by-thread hot", format!("low {by_thread}")),
        ("A a c[8] hot", format!("medium {shared}")),
        ("A W c[8] shared-type hot", format!("medium {shared}")),
        ("A a c[8]", format!("low {shared}")),
        ("? a c[8] hot", format!("low {shared}")),
        ("A W c[8] hot", none.to_owned()),
        ("? W c[8] hot", none.to_owned()),
        // Read only, an element of a line, and one that is all there is.
        ("A R c[8] by-thread hot", String::new()),
        ("A W c[64] by-thread hot", String::new()),
        ("A W c[48] by-thread hot", String::new()),
    ] {
        check(&format!("{array}{uses}"), &expected);
    }
}

#[test]
fn libraries_are_nobodys_to_lay_out() {
    let library = "roots main A* B\n a 0..8\n std::b 8..16\n std::c 64..128\n";
    check(
        &format!("{library} A W a hot\n B W std::b hot"),
        "low globals-share-line a std::b: different threads write them, each its own",
    );
    check(
        &format!("{library} A W std::c[8] by-thread hot"),
        "low elements-share-line std::c: which element is written depends on the thread",
    );
    check(&format!("{library} A a std::b hot\n B a std::b hot"), "");
    check(&format!("{library} A W std::c[8] hot"), "");
}

#[test]
fn hints_do_not_get_into_a_finding_by_being_beside_it() {
    check(
        "roots main A B\n a 0..8\n b 8..16\n c 16..24\n A W a hot\n B W b hot\n ? W c hot",
        "high globals-share-line a b: different threads write them, each its own
         low globals-share-line a b c: different threads write them, each its own",
    );
    // All that is likely on one line is one finding.
    check(
        "roots main A B\n a 0..8\n b 8..16\n c 16..24\n A W a hot\n B W b hot\n B W c hot",
        "high globals-share-line a b c: different threads write them, each its own",
    );
}
