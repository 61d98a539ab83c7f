//! `hitm.toml`: what cannot be read, and each rule on a build that keeps it and on one that breaks it.

use hitm_analysis::check::Policy;
use hitm_binary::debug::DebugInfo;
use hitm_binary::image::Image;
use hitm_model::{Confidence, Fix, LineSize, Party, StaticFinding, StaticRule};
use hitm_testkit::{CompileError, Language, compile_program, skip};

/// Where everything is: `first` and `second` on one line, `alone` on one of its own, `wide` over two, the second with
/// `behind`; two statics of one name in two functions, one of them beside `first`.
const PROGRAM: &str = r#"
__asm__(
    ".bss\n.balign 128\n"
    ".macro object name, size\n.globl \\name\n.type \\name,@object\n.size \\name,\\size\n\\name: .zero \\size\n.endm\n"
    "object first, 8\nobject second, 8\nobject twin.1, 8\n.balign 64\n"
    "object alone, 8\n.balign 64\n"
    "object wide, 72\nobject behind, 8\n.balign 64\n"
    "object twin.2, 8\n.balign 64\n");
struct ring { long head, tail; char data[48]; long size; } ring;
struct __attribute__((aligned(64))) aligned { long head; char data[56]; long tail; } aligned;
struct only { long a, b; } *pointer;
union both { struct { char text[100]; } text; long number; } both;
int main(void) { return (int)(ring.head + aligned.head + both.number); }
"#;

/// Violations of a policy, each as its table, line and words.
#[track_caller]
fn check(policy: &str, expected: &[&str]) {
    let source = tempfile::Builder::new().suffix(".c").tempfile().unwrap();
    std::fs::write(source.path(), PROGRAM).unwrap();
    let program = match compile_program(Language::C, source.path(), &["-no-pie"]) {
        Ok(built) => std::fs::read(built.program).unwrap(),
        Err(CompileError::NoCompiler(compiler)) => skip!("no {compiler}"),
        Err(error) => panic!("{error}"),
    };
    let image = Image::parse(&program).unwrap();
    let debug = DebugInfo::load(&image).unwrap();
    let policy = Policy::parse("hitm.toml", policy).unwrap();
    let violations = policy.violations(&image, &debug, LineSize::ASSUMED);
    let shown: Vec<String> = violations
        .iter()
        .map(|it| format!("[[{}]] {}: {}", it.table, it.policy_line, it.what))
        .collect();
    assert_eq!(shown.len(), expected.len(), "{shown:#?}");
    for (shown, expected) in shown.iter().zip(expected) {
        assert!(shown.starts_with(expected), "{shown:#?}");
    }
    let mut prints: Vec<&str> = violations
        .iter()
        .map(|it| it.fingerprint.as_str())
        .collect();
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(
        prints.len(),
        violations.len(),
        "one fingerprint for several: {shown:#?}"
    );
}

#[test]
fn alone_on_its_lines() {
    check("[[isolate]]\nsymbol = 'alone'", &[]);
    check(
        "[[isolate]]\nsymbol = 'first'",
        &["[[isolate]] 1: first is not alone on its line: second and twin are on it too"],
    );
    // Its second line has a neighbour.
    check(
        "\n\n[[isolate]]\nsymbol = 'wide'",
        &["[[isolate]] 3: wide is not alone on its line: behind is on it too"],
    );
    // Each variable of the name is judged.
    check(
        "[[isolate]]\nsymbol = 'twin'",
        &["[[isolate]] 1: twin is not alone on its line: first and second are on it too"],
    );
    check(
        "[[isolate]]\nsymbol = 'nothing'",
        &["[[isolate]] 1: there is no variable nothing in the binary"],
    );
}

#[test]
fn on_different_lines() {
    check("[[apart]]\nsymbols = ['first', 'alone', 'wide']", &[]);
    check(
        "[[apart]]\nsymbols = ['first', 'alone', 'second']",
        &["[[apart]] 1: first and second share the line at 0x"],
    );
    // Each pair is a violation of its own, so that a baseline with one does not hide another.
    check(
        "[[apart]]\nsymbols = ['first', 'twin', 'second', 'absent']",
        &[
            "[[apart]] 1: there is no variable absent",
            "[[apart]] 1: first and twin share the line at 0x",
            "[[apart]] 1: first and second share the line at 0x",
            "[[apart]] 1: twin and second share the line at 0x",
        ],
    );
    check(
        "[[apart]]\nsymbols = ['wide', 'behind']",
        &["[[apart]] 1: wide and behind share the line at 0x"],
    );
}

#[test]
fn on_one_line() {
    check("[[together]]\nsymbols = ['first', 'second']", &[]);
    // One of the two of this name is there.
    check("[[together]]\nsymbols = ['second', 'twin']", &[]);
    check("[[together]]\nsymbols = ['twin', 'second']", &[]);
    check(
        "[[together]]\nsymbols = ['first', 'second', 'alone']",
        &[
            "[[together]] 1: first, second and alone must be on one line; alone is not on the first one's",
        ],
    );
    // What is on two lines is on one with nobody.
    check(
        "[[together]]\nsymbols = ['behind', 'wide']",
        &["[[together]] 1: behind and wide must be on one line; wide is not on the first one's"],
    );
    check(
        "[[together]]\nsymbols = ['first', 'absent']",
        &["[[together]] 1: there is no variable absent"],
    );
}

/// Parts of variables by the names that findings and `hitm layout` show.
#[test]
fn parts_of_variables() {
    check("[[isolate]]\nsymbol = 'aligned.tail'", &[]);
    check(
        "[[isolate]]\nsymbol = 'aligned.head'",
        &["[[isolate]] 1: aligned.head is not alone on its line: aligned.data is on it too"],
    );
    check(
        "[[isolate]]\nsymbol = 'aligned.data[8]'",
        &["[[isolate]] 1: aligned.data[8] is not alone on its line: aligned.head"],
    );
    check(
        "[[apart]]\nsymbols = ['aligned.head', 'aligned.tail', 'first']",
        &[],
    );
    check(
        "[[apart]]\nsymbols = ['aligned.head', 'aligned.data']",
        &["[[apart]] 1: aligned.head and aligned.data share the line at 0x"],
    );
    check(
        "[[together]]\nsymbols = ['aligned.head', 'aligned.data[55]']",
        &[],
    );
    check(
        "[[together]]\nsymbols = ['aligned.head', 'aligned.tail']",
        &["[[together]] 1: aligned.head and aligned.tail must be on one line; aligned.tail is not"],
    );
    check(
        "[[isolate]]\nsymbol = 'aligned.front'",
        &["[[isolate]] 1: there is no front in aligned: the policy cannot be checked for it"],
    );
    check(
        "[[apart]]\nsymbols = ['only.a', 'only.b']",
        &[
            "[[apart]] 1: only is a type and no variable: ask for the lines of its members with [[type]]",
            "[[apart]] 1: only is a type and no variable: ask for the lines of its members with [[type]]",
        ],
    );
    check(
        "[[isolate]]\nsymbol = 'guard of first'",
        &["[[isolate]] 1: there is no variable guard of first in the binary"],
    );
}

#[test]
fn types() {
    check("[[type]]\nname = 'ring'\nmax_size = 72", &[]);
    check(
        "[[type]]\nname = 'ring'\nmax_size = 71",
        &["[[type]] 1: ring has 72 bytes, and may have 71"],
    );
    check(
        "[[type]]\nname = 'ring'\nmax_size = 1\nseparate = ['head', 'tail']",
        &[
            "[[type]] 1: ring has 72 bytes, and may have 1",
            "[[type]] 1: ring.head and ring.tail may share a line",
        ],
    );
    // 57 bytes from the last byte of the one to the first of the other: on one line for most instances.
    check(
        "[[type]]\nname = 'ring'\nseparate = ['size', 'head']",
        &["[[type]] 1: ring.head and ring.size may share a line"],
    );
    // The same distance is enough where each instance begins with a line.
    check(
        "[[type]]\nname = 'aligned'\nseparate = ['head', 'tail']",
        &[],
    );
    check(
        "[[type]]\nname = 'aligned'\nseparate = ['head', 'data']",
        &["[[type]] 1: aligned.head and aligned.data share a line"],
    );
    check(
        "[[type]]\nname = 'both'\nseparate = ['text', 'number']",
        &["[[type]] 1: both.text and both.number may share a line"],
    );
    check(
        "[[type]]\nname = 'ring'\nseparate = ['head', 'front']",
        &["[[type]] 1: ring has no field front"],
    );
    check(
        "[[type]]\nname = 'circle'\nmax_size = 1",
        &["[[type]] 1: there is no type circle"],
    );
}

/// What cannot be read has the line of the mistake.
#[test]
fn mistakes_have_a_line() {
    for (policy, line, says) in [
        (
            "[[isolate]]\nsymbol = 'a'\ncolour = 'red'",
            3,
            "unknown field `colour`",
        ),
        (
            "\n[[insulate]]\nsymbol = 'a'",
            2,
            "unknown field `insulate`",
        ),
        (
            "[[apart]]\nsymbols = ['a', 'b']\nreason = ''",
            3,
            "unknown field `reason`",
        ),
        (
            "[[together]]\nsymbol = ['a', 'b']",
            2,
            "unknown field `symbol`",
        ),
        (
            "[[type]]\nname = 'a'\nmaxsize = 8",
            3,
            "unknown field `maxsize`",
        ),
        ("[[allow]]\nwhy = 'a'", 2, "unknown field `why`"),
        ("[isolate]\nsymbol = 'a'", 1, "invalid type"),
        ("[[isolate]]\n\n[[apart]]", 3, "missing field `symbols`"),
        (
            "[[isolate]]\nsymbol = 'a'\n[[apart]]\nsymbols = ['a']",
            3,
            "two or more",
        ),
        ("[[together]]\nsymbols = []", 1, "two or more"),
        ("[[type]]\nname = 'a'", 1, "`max_size`"),
        (
            "[[type]]\nname = 'a'\nseparate = ['b']",
            1,
            "two or more fields",
        ),
        ("[[type]]\nname = 'a'\nmax_size = -1", 3, "invalid value"),
        ("[[allow]]\nreason = 'a'", 1, "say what is allowed"),
        ("[[allow]]\nsymbols = ['a']", 1, "missing field `reason`"),
        (
            "[[allow]]\nsymbols = ['a']\nreason = ' '",
            1,
            "must say why",
        ),
        (
            "[[allow]]\nrule = 'sharing'\nreason = 'a'",
            2,
            "unknown variant `sharing`",
        ),
        (
            "[[isolate]]\nsymbol = 'a'\n[[together]]\nsymbols = ['a', 'b', 'a']",
            3,
            "`symbols` names `a` twice",
        ),
        (
            "[[apart]]\nsymbols = ['slots', 'slots']",
            1,
            "`symbols` names `slots` twice",
        ),
        (
            "[[type]]\nname = 'a'\nseparate = ['x', 'x']",
            1,
            "`separate` names `x` twice",
        ),
        (
            "[[isolate]]\nsymbol = 'a'\n[[together]]\nsymbols = ['b', 'a']",
            3,
            "[[together]] cannot be kept: `a` is to be alone on its lines by line 1",
        ),
        (
            "[[together]]\nsymbols = ['a', 'b', 'c']\n\n[[apart]]\nsymbols = ['c', 'd', 'a']",
            1,
            "[[together]] cannot be kept: `a` and `c` are to be on different lines by line 4",
        ),
        ("[[isolate]\nsymbol", 1, ""),
        ("# a comment\n\nsymbol =", 3, ""),
    ] {
        let error = Policy::parse("hitm.toml", policy).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("line {line}: ")),
            "{policy}: {error}"
        );
        assert!(error.contains(says), "{policy}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
    for policy in [
        "",
        "# nothing\n",
        "isolate = []",
        "[[together]]\nsymbols = ['a', 'b']\n[[apart]]\nsymbols = ['b', 'c']\n[[isolate]]\nsymbol = 'd'",
    ] {
        assert_eq!(Policy::parse("p", policy).unwrap().path(), "p");
    }
}

fn finding(names: &[&str]) -> StaticFinding {
    let party = |name: &&str| Party {
        name: (*name).to_owned(),
        type_name: None,
        address: None,
        section: None,
        offset: 0,
        size: 8,
        declared: None,
        touched_by: Vec::new(),
    };
    StaticFinding {
        fingerprint: "0123456789abcdef".to_owned(),
        rule: StaticRule::GlobalsShareLine,
        confidence: Confidence::High,
        parties: names.iter().map(party).collect(),
        line: None,
        why: String::new(),
        fix: Fix {
            text: String::new(),
            added_bytes: 0,
            instances: None,
        },
        allowed: None,
        known: false,
    }
}

#[test]
fn what_is_allowed_and_never_found_is_stale() {
    let policy = "[[allow]]\nsymbols = ['a', 'b']\nreason = 'one'\n\n[[allow]]\nsymbols = ['a', 'c']\nreason = 'two'\n\
                  [[allow]]\nrule = 'elements-share-line'\nreason = 'three'";
    let policy = Policy::parse("hitm.toml", policy).unwrap();
    let findings = [finding(&["x", "y"]), finding(&["c", "guard of a"])];
    assert_eq!(policy.stale(findings.iter()), [(1, "one"), (8, "three")]);
    assert_eq!(policy.stale([].iter()).len(), 3);
}

#[test]
fn what_is_allowed_is_that_finding_and_no_other() {
    let allowed = |rule: &str, names: &[&str]| {
        let policy = format!("[[allow]]\n{rule}\nreason = 'a reason'");
        let policy = Policy::parse("hitm.toml", &policy).unwrap();
        let mut findings = [finding(names)];
        policy.allow(&mut findings);
        findings[0].allowed.as_deref() == Some("a reason")
    };
    let two = "symbols = ['stats.hits', 'stats.misses']";
    assert!(allowed(two, &["stats.hits", "stats.misses"]));
    assert!(allowed(
        two,
        &["server::stats.misses", "server::stats.hits[0]"]
    ));
    assert!(allowed(
        "symbols = ['stats']",
        &["stats.hits", "stats.misses"]
    ));
    assert!(allowed(
        "symbols = ['stats']",
        &["ns::stats.hits", "guard of ns::stats"]
    ));
    assert!(allowed("rule = 'globals-share-line'", &["a", "b"]));
    assert!(allowed("fingerprint = '0123456789ABCDEF'", &["a", "b"]));
    // One of them alone is another finding, and so is a third one that came onto the line.
    assert!(!allowed(two, &["stats.hits", "other"]));
    assert!(!allowed(two, &["stats.hits", "stats.misses", "epoch"]));
    assert!(!allowed(
        "symbols = ['stats']",
        &["statistics.hits", "stats"]
    ));
    assert!(!allowed(
        "symbols = ['tats']",
        &["stats.hits", "stats.misses"]
    ));
    assert!(!allowed("rule = 'fields-share-line'", &["a", "b"]));
    assert!(!allowed("fingerprint = 'fedcba9876543210'", &["a", "b"]));
    // All that is said must hold.
    let both = format!("{two}\nrule = 'fields-share-line'");
    assert!(!allowed(&both, &["stats.hits", "stats.misses"]));
}
