//! `hitm check` as a build uses it: exit codes of every level, policy and baseline, documents, and files that cannot be read or
//! written.

use std::fs::{self, File};
use std::process::{Command, Stdio};

use hitm_testkit::{CompileError, Language, compile_program, skipped};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::session::Session;

/// A worker and main, each with something to do: what stands for `MAIN` and `OTHER`.
const PROGRAM: &str = "
#include <pthread.h>
_Atomic long requests, replies;
struct ring { _Atomic long head, tail; } *ring;
static void *worker(void *p) { for (long i = 0; i < 1000000; i++) requests++; return p; }
static void *other(void *p) { OTHER return p; }
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, worker, 0);
    pthread_create(&b, 0, other, 0);
    MAIN
    pthread_join(a, 0);
    return pthread_join(b, 0) + (ring != 0);
}";

const BUSY: &str = "for (long i = 0; i < 1000000; i++) replies++;";

/// Builds one in which `replies` is changed by another thread (`high`), by the main thread (`medium`), or only the type of
/// `ring` is suspicious (`low`).
fn session(level: &str) -> Option<Session> {
    let (main, other) = match level {
        "high" => ("", BUSY),
        "medium" => (BUSY, ""),
        _ => ("", ""),
    };
    let session = Session::new();
    let source = session.path("source.c");
    fs::write(
        &source,
        PROGRAM.replace("MAIN", main).replace("OTHER", other),
    )
    .unwrap();
    match compile_program(Language::C, &source, &[]) {
        Ok(built) => fs::copy(built.program, session.path("app")).unwrap(),
        Err(CompileError::NoCompiler(compiler)) => {
            skipped(&format!("no {compiler}"));
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    Some(session)
}

/// The one with `high`, and a policy of its own.
fn session_with(policy: &str) -> Option<Session> {
    let session = session("high")?;
    fs::write(session.path("hitm.toml"), policy).unwrap();
    Some(session)
}

/// Runs `hitm check app`; the code and what it said must be as expected. Returns stdout.
#[track_caller]
fn check(session: &Session, arguments: &[&str], code: i32, says: &[&str]) -> String {
    let outcome = session.hitm([&["check", "app"], arguments].concat());
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.status.code(), Some(code), "{arguments:?}: {all}");
    for text in says {
        assert!(all.contains(text), "{arguments:?}: no `{text}` in: {all}");
    }
    outcome.stdout
}

#[test]
fn each_level_fails_on_what_it_says() {
    for (program, codes) in [
        ("high", [0, 0, 1, 1, 1]),
        ("medium", [0, 0, 1, 1, 0]),
        ("low", [0, 0, 1, 0, 0]),
    ] {
        let Some(session) = session(program) else {
            return;
        };
        let levels = ["never", "policy", "low", "medium", "high"];
        for (level, code) in levels.into_iter().zip(codes) {
            check(&session, &["--fail-on", level], code, &[]);
            check(&session, &["--fail-on", level, "--github"], code, &[]);
            check(&session, &["--fail-on", level, "--json"], code, &[]);
            check(
                &session,
                &["--fail-on", level, "--sarif=x.sarif"],
                code,
                &[],
            );
            // Who reads it decides.
            check(&session, &["--fail-on", level, "--sarif"], 0, &[]);
        }
    }
}

#[test]
fn only_what_is_not_in_the_baseline_fails() {
    let Some(session) = session_with("[[apart]]\nsymbols = ['requests', 'replies']\n") else {
        return;
    };
    check(
        &session,
        &[],
        1,
        &["policy    hitm.toml", "violated", "line 1 of the policy"],
    );
    check(&session, &["--write-baseline", "known"], 1, &[]);
    let known = ["--baseline", "known", "--fail-on", "low"];
    check(
        &session,
        &known,
        0,
        &["baseline  known", "(in the baseline)"],
    );
    // It may be written anew from itself, and is the same then.
    let before = fs::read(session.path("known")).unwrap();
    check(
        &session,
        &["--baseline", "known", "--write-baseline", "known"],
        0,
        &[],
    );
    assert_eq!(fs::read(session.path("known")).unwrap(), before);
    // A violation more, of another rule or of the same one, is new.
    for more in [
        "[[isolate]]\nsymbol = 'requests'\n",
        "[[apart]]\nsymbols = ['requests', 'nothing']\n",
    ] {
        let old = "[[apart]]\nsymbols = ['requests', 'replies']\n";
        fs::write(session.path("hitm.toml"), format!("{old}{more}")).unwrap();
        check(&session, &known, 1, &[]);
    }
    // Allowed is allowed at every level, but not what the policy forbids.
    let allow = "[[allow]]\nsymbols = ['requests', 'replies']\nreason = 'seldom'\n[[allow]]\nrule = 'fields-share-line'\n\
                 reason = 'one thread'\n";
    fs::write(session.path("hitm.toml"), allow).unwrap();
    check(
        &session,
        &["--fail-on", "low", "--all"],
        0,
        &["allowed", "seldom"],
    );
}

/// What is allowed and not found any more does not fail, and is told.
#[test]
fn what_is_allowed_in_vain_is_told() {
    let Some(session) = session_with(
        "[[allow]]\nsymbols = ['requests', 'gone']\nreason = 'old'\n\n[[allow]]\nsymbols = ['requests', 'replies']\nreason = 'new'\n",
    ) else {
        return;
    };
    let told = "hitm: hitm.toml:1: nothing is allowed by this [[allow]] (old)";
    check(&session, &["--fail-on", "medium"], 0, &[told]);
    check(&session, &["--json"], 0, &[told]);
    let said = session.hitm(["check", "app"]);
    assert!(!said.stderr.contains("(new)"), "{}", said.stderr);
}

#[test]
fn every_format_says_which_policy_was_used() {
    let Some(session) = session("high") else {
        return;
    };
    fs::write(
        session.path("hitm.toml"),
        "[[isolate]]\nsymbol = 'requests'\n",
    )
    .unwrap();
    fs::write(session.path("other.toml"), "").unwrap();
    let both = ["--json=a.json", "--sarif=a.sarif", "--github"];
    let log = check(&session, &both, 1, &[]);
    assert!(
        log.contains("::error file=") && log.contains("violation of hitm.toml"),
        "{log}"
    );
    let json = session.json("a.json");
    assert_eq!(json["binaries"][0]["policy"], "hitm.toml");
    let sarif = session.json("a.sarif");
    assert_eq!(
        sarif["runs"][0]["invocations"][0]["properties"]["policy"],
        "hitm.toml"
    );
    check(
        &session,
        &["--policy", "other.toml"],
        0,
        &["policy    other.toml"],
    );
    check(
        &session,
        &["--policy", "/dev/null"],
        0,
        &["policy    /dev/null"],
    );
    check(
        &session,
        &["--json", "--sarif"],
        2,
        &["only one of --json, --sarif and --github"],
    );
}

#[test]
fn policies_and_baselines_that_cannot_be_read() {
    let Some(session) = session("low") else {
        return;
    };
    fs::write(
        session.path("bad.toml"),
        "[[isolate]]\nsymbol = 'a'\ncolour = 1\n",
    )
    .unwrap();
    fs::write(session.path("binary.toml"), [0xff, 0xfe]).unwrap();
    for (arguments, says) in [
        (
            ["--policy", "missing.toml"],
            "cannot read the policy missing.toml",
        ),
        (
            ["--policy", "bad.toml"],
            "bad.toml: line 3: unknown field `colour`",
        ),
        (
            ["--policy", "binary.toml"],
            "cannot read the policy binary.toml",
        ),
        (["--policy", "."], "cannot read the policy ."),
        (
            ["--baseline", "missing"],
            "make one: --write-baseline missing",
        ),
        (
            ["--baseline", "source.c"],
            "does not begin with a fingerprint",
        ),
        (
            ["--write-baseline", "no/such/folder"],
            "cannot write the baseline no/such/folder",
        ),
        (
            ["--fail-on", "sometimes"],
            "use `low`, `medium`, `high`, `policy` or `never`",
        ),
    ] {
        check(&session, &arguments, 2, &[says]);
    }
    // What may never end is not waited for.
    mkfifo(&session.path("pipe"), Mode::S_IRWXU).unwrap();
    let large = File::create(session.path("large")).unwrap();
    large.set_len(1 << 40).unwrap();
    for flag in ["--policy", "--baseline"] {
        for (path, says) in [
            ("pipe", "a named pipe, which may never be written to"),
            ("/dev/zero", "it is a device, not a file"),
            (".", "it is a directory, not a file"),
            ("large", "is it another file?"),
        ] {
            check(&session, &[flag, path], 2, &["cannot read the", says]);
        }
        check(&session, &[flag, "/dev/null"], 0, &[]);
    }
    mkfifo(&session.path("hitm.toml"), Mode::S_IRWXU).unwrap();
    check(&session, &[], 2, &["the policy hitm.toml", "a named pipe"]);
    fs::remove_file(session.path("hitm.toml")).unwrap();
    // What is there unasked must be readable too: a gate does not pass because its policy is not.
    fs::create_dir(session.path("hitm.toml")).unwrap();
    check(
        &session,
        &[],
        2,
        &["the policy hitm.toml of the working directory"],
    );
}

#[test]
fn a_full_disk_costs_no_old_file() {
    let Some(session) = session("high") else {
        return;
    };
    for file in ["known", "old.sarif", "old.json"] {
        fs::write(session.path(file), "old").unwrap();
    }
    // A limit of the file size stands for a full disk.
    for (flag, file) in [
        ("--write-baseline=known", "known"),
        ("--sarif=old.sarif", "old.sarif"),
        ("--json=old.json", "old.json"),
    ] {
        let outcome = Command::new("sh")
            .current_dir(session.path(""))
            .args([
                "-c",
                "trap '' XFSZ; ulimit -f 0; exec \"$0\" check app \"$1\"",
            ])
            .args([env!("CARGO_BIN_EXE_hitm"), flag])
            .stdout(Stdio::null())
            .output()
            .unwrap();
        let says = String::from_utf8_lossy(&outcome.stderr);
        assert_eq!(outcome.status.code(), Some(2), "{flag}: {says}");
        assert!(
            says.contains("cannot write") && says.contains("give another place"),
            "{says}"
        );
        assert_eq!(fs::read(session.path(file)).unwrap(), b"old", "{flag}");
    }
    let left = fs::read_dir(session.path("")).unwrap().count();
    assert_eq!(left, 5, "something was left behind");
}

#[test]
fn a_gate_holds_when_nobody_reads() {
    let Some(session) = session("high") else {
        return;
    };
    for format in ["--all", "--json", "--github"] {
        let (reader, writer) = nix::unistd::pipe().unwrap();
        drop(reader);
        let status = Command::new(env!("CARGO_BIN_EXE_hitm"))
            .current_dir(session.path(""))
            .args(["check", "app", "--fail-on", "high", format])
            .stdout(Stdio::from(writer))
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(1), "{format}");
        // That it cannot be written is an error of ours.
        let output = Command::new(env!("CARGO_BIN_EXE_hitm"))
            .current_dir(session.path(""))
            .args(["check", "app", "--fail-on", "high", format])
            .stdout(File::options().write(true).open("/dev/full").unwrap())
            .output()
            .unwrap();
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{format}: {says}");
        assert!(says.contains("cannot write to stdout"), "{says}");
    }
}
