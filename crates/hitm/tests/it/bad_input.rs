//! What goes wrong for users: each has a message that ends in what to do, and a documented exit code.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use hitm_testkit::{CompileError, perf_available, quiet_machine, skip};

use crate::session::Session;

/// Runs hitm and compares the exit code; the message must contain all of `says`.
fn check(session: &Session, arguments: &[&str], code: i32, says: &[&str]) {
    let outcome = session.hitm(arguments);
    assert_eq!(
        outcome.status.code(),
        Some(code),
        "{arguments:?}: {}",
        outcome.stderr
    );
    for text in says {
        assert!(
            outcome.stderr.contains(text),
            "{arguments:?}: no `{text}` in: {}",
            outcome.stderr
        );
    }
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
}

#[test]
fn commands_that_cannot_be_run() {
    let session = Session::new();
    check(
        &session,
        &["run", "--", "/no/such/program"],
        2,
        &["hitm: ", "/no/such/program"],
    );
    check(
        &session,
        &["run", "--", "no-such-program-on-the-path"],
        2,
        &["no-such-program-on-the-path"],
    );
    let script = session.path("data");
    fs::write(&script, "no program\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o644)).unwrap();
    check(&session, &["run", "--", "./data"], 2, &["./data"]);
}

#[test]
fn wrong_usage() {
    let session = Session::new();
    check(&session, &[], 2, &["Usage"]);
    check(&session, &["run"], 2, &["CMD"]);
    check(
        &session,
        &["run", "--rate", "0", "--", "true"],
        2,
        &["--rate"],
    );
    check(
        &session,
        &["run", "--fail-on", "sometimes", "--", "true"],
        2,
        &["--fail-on"],
    );
    check(&session, &["attach", "no-pid"], 2, &["PID"]);
}

#[test]
fn recordings_that_are_none() {
    let session = Session::new();
    check(&session, &["report", "missing.hitm"], 2, &["missing.hitm"]);
    fs::write(session.path("text.hitm"), "not a recording\n").unwrap();
    check(&session, &["report", "text.hitm"], 2, &["text.hitm"]);
    fs::write(session.path("empty.hitm"), "").unwrap();
    check(&session, &["report", "empty.hitm"], 2, &["empty.hitm"]);
}

#[test]
fn processes_that_are_gone() {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    child.wait().unwrap();
    check(&Session::new(), &["attach", &pid, "--for", "1"], 2, &[&pid]);
}

#[test]
fn the_programs_own_status_is_reported_and_not_returned() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    let outcome = session.hitm([
        "run",
        "--json=report.json",
        "--",
        "sh",
        "-c",
        "echo said; exit 7",
    ]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "said\n");
    assert_eq!(session.json("report.json")["child"]["code"], 7);
    let outcome = session.hitm([
        "run",
        "--json=report.json",
        "--",
        "sh",
        "-c",
        "kill -SEGV $$",
    ]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert_eq!(session.json("report.json")["child"]["signal"], 11);
}

#[test]
fn json_on_stdout_is_nothing_but_json() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    for json in ["--json", "--json=-"] {
        let outcome = Session::new().hitm(["run", json, "--", "echo", "said"]);
        assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert!(report["findings"].as_array().unwrap().is_empty());
        assert!(outcome.stderr.contains("said"), "{}", outcome.stderr);
    }
}

#[test]
fn a_recording_is_reported_again_and_an_old_one_kept() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    for _ in 0..2 {
        let outcome = session.hitm(["run", "-o", "r.hitm", "--json=first.json", "--", "true"]);
        assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    }
    assert!(session.path("r.hitm.old").exists());
    let outcome = session.hitm(["report", "r.hitm", "--json=second.json"]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    assert_eq!(session.json("first.json"), session.json("second.json"));
}

#[test]
fn a_truncated_recording_gives_what_can_be_read_and_a_caveat() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    session.hitm([
        "run",
        "-o",
        "whole.hitm",
        "--",
        "sh",
        "-c",
        "for i in 1 2 3 4 5 6 7 8; do true; done",
    ]);
    let bytes = fs::read(session.path("whole.hitm")).unwrap();
    fs::write(session.path("cut.hitm"), &bytes[..bytes.len() - 5]).unwrap();
    let outcome = session.hitm(["report", "cut.hitm", "--json=cut.json"]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let caveats = session.json("cut.json")["caveats"].to_string();
    assert!(
        caveats.contains("recording-truncated") || caveats.contains("recording-damaged"),
        "{caveats}"
    );
}

#[test]
fn a_gate_without_evidence_does_not_pass() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    // There is nothing to be found in it: only the lack of evidence can fail.
    let apart = PAIR.replace("long a, b;", "long a, gap[31], b;");
    compile(&session, &apart, &["-Wl,--build-id"]);
    check(
        &session,
        &["run", "-o", "r.hitm", "--fail-on", "never", "--", "./main"],
        0,
        &[],
    );
    let bytes = fs::read(session.path("r.hitm")).unwrap();
    fs::write(session.path("cut.hitm"), &bytes[..bytes.len() / 64]).unwrap();
    for gate in ["any", "false-sharing:5%"] {
        let report = ["report", "cut.hitm", "--fail-on", gate];
        check(
            &session,
            &report,
            2,
            &["hitm: --fail-on cannot be judged: the recording ends in the middle; "],
        );
    }
    check(&session, &["report", "cut.hitm"], 0, &[]);

    compile(
        &session,
        &apart.replace("pair", "renamed"),
        &["-Wl,--build-id"],
    );
    check(
        &session,
        &["report", "r.hitm", "--fail-on", "any"],
        2,
        &[
            "cannot be judged",
            "is not the build that was recorded; record again",
        ],
    );
    check(
        &session,
        &[
            "run",
            "--rate",
            "1",
            "--fail-on",
            "any",
            "--",
            "sleep",
            "0.1",
        ],
        2,
        &["cannot be judged: no sample was taken"],
    );
}

#[test]
fn a_recording_that_runs_full_says_what_was_run_and_is_no_success() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    compile(&session, PAIR, &[]);
    // A limit of the file size stands for a full disk.
    let script = "trap '' XFSZ; ulimit -f 8; \"$0\" run -o r.hitm --rate 5000 --json=- -- ./main";
    let outcome = hitm_testkit::run_limited(
        std::process::Command::new("sh")
            .current_dir(session.path(""))
            .args(["-c", script, env!("CARGO_BIN_EXE_hitm")]),
        std::time::Duration::from_secs(60),
    )
    .unwrap();
    assert_eq!(outcome.status.code(), Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("stopped in the middle"),
        "{}",
        outcome.stderr
    );
    let said = |report: &serde_json::Value| {
        assert_eq!(report["run"]["command"][0], "./main", "{report}");
        assert!(report["machine"].is_object() && report["sampler"].is_object());
        report["caveats"].to_string()
    };
    let caveats = said(&serde_json::from_str(&outcome.stdout).unwrap());
    assert!(caveats.contains("recording-stopped"), "{caveats}");
    assert!(!caveats.contains("no-samples"), "{caveats}");
    check(&session, &["report", "r.hitm", "--json=later.json"], 0, &[]);
    let caveats = said(&session.json("later.json"));
    assert!(caveats.contains("recording-truncated"), "{caveats}");
    assert!(!caveats.contains("no-samples"), "{caveats}");
}

#[test]
fn a_killed_recorder_leaves_what_was_run() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    let mut hitm = std::process::Command::new(env!("CARGO_BIN_EXE_hitm"))
        .current_dir(session.path(""))
        .args(["run", "-o", "r.hitm", "--", "sleep", "1000"])
        .spawn()
        .unwrap();
    let began = std::time::Instant::now();
    // The header alone has a name of its own.
    while !session.path("r.hitm").exists() && began.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    hitm.kill().unwrap();
    hitm.wait().unwrap();
    check(&session, &["report", "r.hitm", "--json=r.json"], 0, &[]);
    let report = session.json("r.json");
    assert_eq!(report["run"]["command"][0], "sleep", "{report}");
    let caveats = report["caveats"].to_string();
    assert!(caveats.contains("recording-truncated"), "{caveats}");
    assert!(!caveats.contains("no-samples"), "{caveats}");
    let pid = report["run"]["pid"].as_i64().unwrap();
    let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
    // It may have gone with its recorder.
    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_the_program_runs() {
    let session = Session::new();
    fs::create_dir(session.path("folder")).unwrap();
    for to in ["--json=no/such/folder.json", "--json=folder"] {
        check(
            &session,
            &["run", to, "--", "touch", "ran"],
            2,
            &["cannot create the report", "--json=FILE"],
        );
    }
    assert!(!session.path("ran").exists());
    // The check leaves nothing behind, and changes nothing.
    fs::write(session.path("old.json"), "old").unwrap();
    for to in ["--json=new.json", "--json=old.json"] {
        check(&session, &["run", to, "--", "/no/such/program"], 2, &[]);
    }
    assert!(!session.path("new.json").exists());
    assert_eq!(fs::read(session.path("old.json")).unwrap(), b"old");
}

#[test]
fn a_program_that_may_not_be_read_is_the_reason_for_no_samples() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    if nix::unistd::geteuid().is_root() {
        skip!("root may read everything");
    }
    let session = Session::new();
    compile(&session, PAIR, &[]);
    fs::set_permissions(session.path("main"), fs::Permissions::from_mode(0o111)).unwrap();
    check(
        &session,
        &["run", "--json=r.json", "--fail-on", "any", "--", "./main"],
        2,
        &["cannot be judged: no sample was taken, and ./main may be run but not read"],
    );
    let caveats = session.json("r.json")["caveats"].to_string();
    assert!(caveats.contains("program-unreadable"), "{caveats}");
    assert!(!caveats.contains("no-samples"), "{caveats}");
}

#[test]
fn a_program_that_sleeps_has_a_duration_all_the_same() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    check(
        &session,
        &["run", "--json=r.json", "--", "sleep", "0.3"],
        0,
        &[],
    );
    let duration = session.json("r.json")["totals"]["duration_ns"]
        .as_u64()
        .unwrap();
    assert!(duration >= 300_000_000, "{duration}");
}

#[test]
fn the_help_of_a_command_is_about_that_command() {
    let session = Session::new();
    let check = |command: &str, says: &str, not: &[&str]| {
        let help = session.hitm([command, "--help"]).stdout;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(says), "{command}: {help}");
        for text in not {
            assert!(!help.contains(text), "{command}: {help}");
        }
    };
    let of_run = ["program's own stdout", "SIGINT"];
    check("run", of_run[0], &[]);
    check("run", of_run[1], &[]);
    check("attach", "The process runs on", &of_run);
    check("report", "instead of the table", &of_run);
    check("report", "exit with 2: no sample", &of_run);
}

#[test]
fn the_gate_is_exit_code_1_and_only_when_asked_for() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let _alone = quiet_machine().unwrap();
    let fixture = hitm_testkit::fixture("shared_atomic");
    let built = match fixture.build(hitm_testkit::Layout::Faulty, None) {
        Ok(built) => built,
        Err(CompileError::NoCompiler(compiler)) => skip!("no {compiler}"),
        Err(error) => panic!("{error}"),
    };
    let session = Session::new();
    let program = built.program.to_str().unwrap();
    check(
        &session,
        &["run", "-o", "r.hitm", "--json=r.json", "--", program],
        0,
        &[],
    );
    if session.json("r.json")["findings"]
        .as_array()
        .unwrap()
        .is_empty()
    {
        skip!("the threads did not run side by side");
    }
    check(&session, &["report", "r.hitm", "--fail-on", "any"], 1, &[]);
    // It holds where nobody reads what it says.
    let (reader, writer) = nix::unistd::pipe().unwrap();
    drop(reader);
    let unread = std::process::Command::new(env!("CARGO_BIN_EXE_hitm"))
        .current_dir(session.path(""))
        .args(["report", "r.hitm", "--fail-on", "any"])
        .stdout(writer)
        .status();
    assert_eq!(unread.unwrap().code(), Some(1));
    check(
        &session,
        &["report", "r.hitm", "--fail-on", "false-sharing"],
        0,
        &[],
    );
    check(
        &session,
        &["report", "r.hitm", "--fail-on", "never"],
        0,
        &[],
    );
}

/// Two threads that fight, one wherever the other is: `pair` is what it is called.
const PAIR: &str = r#"
#include <pthread.h>
struct { long a, b; } __attribute__((aligned(64))) pair;
static void *work(void *at) { for (long i = 0; i < 4000000; i++) __atomic_fetch_add((long *)at, 1, 0); return 0; }
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, work, &pair.a);
    work(&pair.b);
    return pthread_join(other, 0);
}"#;

fn compile(session: &Session, source: &str, flags: &[&str]) {
    fs::write(session.path("main.c"), source).unwrap();
    let output = std::process::Command::new("gcc")
        .current_dir(session.path(""))
        .args(["-O1", "-g", "-pthread", "-o", "main", "main.c"])
        .args(flags)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_rebuilt_program_gives_no_names_with_or_without_build_id() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    for flag in ["-Wl,--build-id=none", "-Wl,--build-id"] {
        let session = Session::new();
        compile(&session, PAIR, &[flag]);
        let outcome = session.hitm(["run", "-o", "r.hitm", "--json=r.json", "--", "./main"]);
        assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
        let caveats = |name: &str| session.json(name)["caveats"].to_string();
        assert!(!caveats("r.json").contains("build-id-differs"));
        compile(&session, &PAIR.replace("pair", "renamed"), &[flag]);
        session.hitm(["report", "r.hitm", "--json=later.json"]);
        assert!(caveats("later.json").contains("build-id-differs"), "{flag}");
        assert!(
            session.json("later.json")["findings"]
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn what_the_program_made_ends_with_it() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    let outcome = session.hitm([
        "run",
        "--for",
        "0.3",
        "--",
        "sh",
        "-c",
        "sleep 1000 & echo $!; wait",
    ]);
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let stat = fs::read_to_string(format!("/proc/{}/stat", outcome.stdout.trim()));
    assert!(
        stat.is_err() || stat.unwrap().contains(") Z"),
        "{outcome:?}"
    );
}

#[test]
fn two_runs_into_one_recording_do_not_mix() {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    let session = Session::new();
    std::thread::scope(|scope| {
        for said in ["first", "second"] {
            let session = &session;
            scope.spawn(move || {
                let json = format!("--json={said}.json");
                let outcome = session.hitm(["run", &json, "--", "sh", "-c", "sleep 0.3", said]);
                assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
                let command = session.json(&format!("{said}.json"))["run"].to_string();
                assert!(command.contains(said), "{command}");
            });
        }
    });
}

#[test]
fn what_cannot_be_sampled_or_read_is_said_at_once() {
    let session = Session::new();
    check(&session, &["attach", "2"], 2, &["2", "try:"]);
    nix::unistd::mkfifo(&session.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    check(&session, &["report", "fifo"], 2, &["not a regular file"]);
    check(&session, &["run", "--", "."], 2, &["try: "]);
    let script = session.path("script");
    fs::write(&script, "#!/no/interpreter\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    check(
        &session,
        &["run", "--", "./script"],
        2,
        &["/no/interpreter is missing"],
    );
}
