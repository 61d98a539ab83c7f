//! Who does what to what → the line of advice.

use hitm_model::{Avma, Object};

use super::*;

/// A role as `A W counters[3].hits` (or `R`, or `a` for an atomic update), with what is known of the object behind it:
/// `heap Shard 24 @0x10`, `global workers [] 24*8` (an array of elements of that size).
fn role(text: &str) -> Role {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [who, access, path, kind, name, rest @ ..] = words.as_slice() else {
        panic!("not a role: {text}")
    };
    let (kind, object) = match *kind {
        "heap" => (ObjectKind::Heap, format!("(heap) {name}")),
        "global" => (ObjectKind::Global, (*name).to_owned()),
        "stack" => (ObjectKind::Stack, format!("{name} in main()")),
        other => panic!("no kind {other}"),
    };
    let value = |prefix: &str| rest.iter().find_map(|word| word.strip_prefix(prefix));
    let number = |text: &str| text.parse::<u64>().unwrap();
    let elements = rest
        .iter()
        .filter_map(|word| word.split_once('*'))
        .scan(0, |at, (size, count)| {
            let open = *at + path[*at..].find('[').unwrap();
            *at = open + path[open..].find(']').unwrap();
            Some(Element {
                array: path[..open].to_owned(),
                index: number(&path[open + 1..*at]),
                size: number(size),
                count: Some(number(count)),
            })
        })
        .collect();
    let at = u32::try_from(value("+").map_or(0, number)).unwrap();
    Role {
        thread: ThreadId(u32::from(who.as_bytes()[0])),
        writes: *access != "R",
        atomic: *access == "a",
        range: ByteRange {
            start: at,
            end: at + 8,
        },
        attribution: Attribution {
            identity: object.clone(),
            object: Object {
                kind,
                name: object,
                type_name: (!rest.contains(&"untyped")).then(|| (*name).to_owned()),
                binary: None,
                section: None,
                address: Avma(value("@").map_or(0, number)),
                size: value("size=").map(number),
                declared: None,
                inferred: None,
            },
            field_path: (*path).to_owned(),
            field_type: value("type=").map(str::to_owned),
            elements,
            bare: !path.contains('.'),
            rust: rest.contains(&"rust"),
        },
    }
}

#[track_caller]
fn check(verdict: Verdict, roles: &str, expected: &str) {
    let roles: Vec<Role> = roles.lines().map(role).collect();
    let advice = advise(verdict, &roles, LineSize::new(64).unwrap());
    let price = advice
        .added_bytes
        .map_or_else(String::new, |bytes| format!(" +{bytes}"));
    assert_eq!(format!("{}{price}", advice.text), expected);
}

#[test]
fn elements_of_an_array_are_padded_whatever_is_written_in_them() {
    check(
        Verdict::FalseSharing,
        "A W c[0] global c 8*4\nB W c[1] global c 8*4",
        "give each element of c a line of its own: put each into a struct with `alignas(64)` (C: `__attribute__((aligned(64)))`) \
         (each grows from 8 to 64 bytes) +224",
    );
    check(
        Verdict::FalseSharing,
        "A W w[0].hits global w 24*8\nA W w[0].misses global w 24*8\nB W w[1].hits global w 24*8",
        "give each element of w a line of its own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on the element type \
         (each grows from 24 to 64 bytes) +320",
    );
    // The inner array is one thread's as a whole.
    check(
        Verdict::FalseSharing,
        "A W w[0].n[0] global w 32*2 8*4\nA W w[0].n[1] global w 32*2 8*4\nB W w[1].n[0] global w 32*2 8*4",
        "give each element of w a line of its own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on the element type \
         (each grows from 32 to 64 bytes) +64",
    );
    // The outer one is not indexed by thread, the inner one is.
    check(
        Verdict::FalseSharing,
        "A W s[3].n[0] global s 32*8 8*4 rust\nB W s[3].n[1] global s 32*8 8*4 rust",
        "give each element of s[3].n a line of its own: wrap each in a `#[repr(align(64))]` struct \
         (each grows from 8 to 64 bytes) +224",
    );
    check(
        Verdict::FalseSharing,
        "A W w[0].a global w 72*2\nB W w[1].a global w 72*2",
        "give each element of w a line of its own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on the element type \
         (each grows from 72 to 128 bytes) +112",
    );
    check(
        Verdict::FalseSharing,
        "A W w[0].a global w 64*2\nB W w[1].a global w 64*2",
        "start w at a multiple of 64: its elements are as large as lines but lie across their borders",
    );
}

#[test]
fn arrays_of_one_structure_become_one_struct_per_thread() {
    check(
        Verdict::FalseSharing,
        "A W server.reads[1] global server 8*16\nB W server.reads[2] global server 8*16\n\
         A W server.writes[1] global server 8*16\nB W server.writes[2] global server 8*16",
        "put what one thread uses of server.reads and server.writes into one struct per thread, aligned to 64 bytes",
    );
}

#[test]
fn heap_neighbours_of_one_type_are_aligned_by_their_type() {
    check(
        Verdict::FalseSharing,
        "A W Shard.n heap Shard @16 size=24\nB W Shard.n heap Shard @40 size=24",
        "several Shard lie on one line, give each a line of its own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on Shard \
         (each grows from 24 to 64 bytes) +40",
    );
    check(
        Verdict::FalseSharing,
        "A W *n heap uint64_t @16 size=8\nB W *n heap uint64_t @48 size=8",
        "several uint64_t lie on one line, give each a line of its own: allocate each with an alignment and a size \
         of 64 bytes (each grows from 8 to 64 bytes) +56",
    );
}

#[test]
fn the_written_object_moves_not_the_read_one() {
    check(
        Verdict::FalseSharing,
        "A W idx global idx size=8\nB R epoch global epoch size=8",
        "put idx (written) on a line of its own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on it, padded to 64 bytes so that no neighbour moves \
         in +64",
    );
    check(
        Verdict::FalseSharing,
        "A W low stack low size=8\nB W high stack high size=8",
        "put low in main() and high in main() (written) on lines of their own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on each, each padded to \
         64 bytes so that no neighbour moves in +128",
    );
    check(
        Verdict::FalseSharing,
        "A W ring.head global ring size=16\nB R ring.mask global ring size=16",
        "move ring.head in ring to a line of its own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on it, and nothing else on that line +64",
    );
}

#[test]
fn fields_of_one_structure_are_parted_by_their_writers() {
    check(
        Verdict::FalseSharing,
        "A W ring.head global ring size=16 rust\nB W ring.tail global ring size=16 rust",
        "give ring.head and ring.tail of ring a line each: wrap each in a `#[repr(align(64))]` struct, and nothing \
         else on those lines +128",
    );
    check(
        Verdict::FalseSharing,
        "A W s.a global s size=24\nA W s.b global s size=24\nB W s.c global s size=24",
        "group the fields of s by the thread that writes them (s.a and s.b | s.c) and give each group a line of its \
         own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on each group +128",
    );
}

#[test]
fn without_types_the_distance_is_the_advice() {
    check(
        Verdict::FalseSharing,
        "A W f() heap f() untyped @16\nB W f() heap f() untyped @24",
        "keep what different threads write of f() at least 64 bytes apart: `alignas(64)` (C: `__attribute__((aligned(64)))`) on the type of what \
         one thread owns",
    );
}

#[test]
fn a_lock_is_not_copied_per_thread() {
    check(
        Verdict::TrueSharing,
        "A W db.m global db type=std::mutex\nB W db.m global db type=std::mutex",
        "padding cannot help: these threads take the same lock, db.m; shorten the time it is held, take it less often, \
         or split it",
    );
    check(
        Verdict::TrueSharing,
        "A a hits global hits\nB a hits global hits",
        "padding cannot help: these threads change the same bytes of hits; give each thread a copy of its own and add \
         them up when reading",
    );
    // What is changed plainly by several is guarded by something, wherever that is.
    check(
        Verdict::TrueSharing,
        "A W acct.balance global acct\nB W acct.balance global acct",
        "padding cannot help: these threads change the same bytes of acct.balance and not atomically, so something must \
         make them take turns; do less while it does, or split the data",
    );
    check(
        Verdict::TrueSharing,
        "A a acct.m global acct type=pthread_mutex_t\nB a acct.m global acct type=pthread_mutex_t\nA W acct.ops global acct\nB W acct.ops global acct",
        "padding cannot help: these threads take the same lock, acct.m; shorten the time it is held, take it less \
         often, or split it",
    );
}

#[test]
fn what_is_shared_stays() {
    check(
        Verdict::Mixed,
        "A W s.lock global s +0\nB W s.lock global s +0\nC W s.n global s +8",
        "move s.n in s to a line of its own: `alignas(64)` (C: `__attribute__((aligned(64)))`) on it, and nothing else on that line; what several threads use of s.lock stays shared, \
         padding does not help that +64",
    );
}

#[test]
fn elements_that_one_thread_writes_and_another_reads_are_not_theirs() {
    check(
        Verdict::FalseSharing,
        "A R hops[0].next global hops [] 64*5
         A R hops[1].next global hops [] 64*5
         B W hops[0].marks global hops [] 64*5 +16
         B W hops[1].marks global hops [] 64*5 +16",
        "move hops[0].marks and hops[1].marks in hops to a line of its own: `alignas(64)` (C: \
         `__attribute__((aligned(64)))`) on them, and nothing else on that line +64",
    );
}
