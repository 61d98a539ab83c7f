//! What `hitm attach` says of the server at work: the arrays are false sharing, the bytes are true sharing, each by name, and
//! what is repaired is gone. With one IO thread there is nothing to see.
//!
//! The `hitm` that is asked is the one beside the server, which a build of the workspace makes. Clients send large values,
//! read in small pieces, so that the IO threads have much to count and are at work at the same time.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hitm_testkit::{have_tool, perf_available, quiet_machine, run_limited, skip};
use serde_json::Value;

use crate::server::Server;

const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Below this share of the time nothing can be said about threads that were to run side by side. They are in the system
/// for most of their time, where they are not seen.
const CO_RUNNING_ENOUGH: f64 = 0.2;
const ATTEMPTS: usize = 3;

const READS: &str = "stat_io_reads_processed[";
const BYTES: &str = "stat_net_input_bytes";

fn hitm() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_ioserver")).with_file_name("hitm");
    beside.exists().then_some(beside)
}

/// redis-benchmark at work until it is dropped.
struct Load(Child);

impl Load {
    fn on(server: &Server) -> Self {
        let child = Command::new("redis-benchmark")
            .args(["-p", &server.port(), "-t", "set", "-d", "100000"])
            .args(["-c", "12", "-n", "1000000000", "-q"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What hitm reports of a server under load, and what it printed.
fn report(hitm: &Path, flags: &[&str]) -> (Value, String) {
    let mut words = vec!["--io-chunk", "64"];
    words.extend(flags);
    let server = Server::start(&words);
    let _load = Load::on(&server);
    let dir = tempfile::tempdir().unwrap();
    let mut attach = Command::new(hitm);
    attach
        .current_dir(dir.path())
        .env("NO_COLOR", "1")
        .args([
            "attach",
            &server.pid().to_string(),
            "--for",
            "2",
            "--rate",
            "5000",
        ])
        .args(["--threads-by", "tid", "--json=report.json"]);
    let outcome = run_limited(&mut attach, TIME_LIMIT).unwrap();
    assert_eq!(outcome.status.code(), Some(0), "{}", outcome.stderr);
    let text = std::fs::read_to_string(dir.path().join("report.json")).unwrap();
    // The table of the same recording is what a person would read.
    let mut table = Command::new(hitm);
    table
        .current_dir(dir.path())
        .env("NO_COLOR", "1")
        .args(["report", "hitm.data.hitm"]);
    let table = run_limited(&mut table, TIME_LIMIT).unwrap();
    (serde_json::from_str(&text).unwrap(), table.stdout)
}

/// A field that several threads met at: its name, the verdict of its finding, and the kind of the advice.
type Named = (String, String, String);

fn named(report: &Value) -> Vec<Named> {
    let list = |json: &Value, key: &str| json[key].as_array().cloned().unwrap_or_default();
    let text = |json: &Value| json.as_str().unwrap_or_default().to_owned();
    let mut all: Vec<Named> = list(report, "findings")
        .iter()
        .flat_map(|finding| {
            let (verdict, advice) = (text(&finding["verdict"]), text(&finding["advice"]["kind"]));
            let participants = list(finding, "participants");
            let of = move |it: &Value| (text(&it["field_path"]), verdict.clone(), advice.clone());
            participants.iter().map(of).collect::<Vec<_>>()
        })
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Asks hitm until what it names is what was wanted, visibly, while the machine does not run the threads side by side.
#[expect(clippy::print_stderr, reason = "a retry must be seen")]
///
/// That nothing is named says something only where the threads ran side by side; `alone` is where they cannot.
fn check(flags: &[&str], alone: bool, wrong: impl Fn(&[Named], &str) -> Option<&'static str>) {
    if let Err(why) = perf_available() {
        skip!("{why}");
    }
    if !have_tool("redis-benchmark") {
        skip!("no redis-benchmark: apt-get install redis-tools");
    }
    let Some(hitm) = hitm() else {
        skip!("no hitm beside the lab: cargo build -p hitm");
    };
    let _alone = quiet_machine().unwrap();
    for attempt in 1..=ATTEMPTS {
        let (report, table) = report(&hitm, flags);
        let named = named(&report);
        let co_running = report["totals"]["co_running_share"].as_f64().unwrap_or(0.0);
        let co_ran = co_running >= CO_RUNNING_ENOUGH;
        let wrong = match wrong(&named, &table) {
            None if co_ran || alone || !named.is_empty() => return,
            None => "nothing can be said",
            Some(wrong) => wrong,
        };
        assert!(!co_ran && !alone, "{flags:?}: {wrong}:\n{table}");
        eprintln!(
            "RETRY: {flags:?}: attempt {attempt}: {wrong}; side by side in {co_running:.2} of the time"
        );
    }
    skip!("{flags:?}: this machine does not run three threads side by side");
}

/// Elements of the array of reads that are named as false sharing, with the advice to take them apart.
fn n_elements(named: &[Named]) -> usize {
    let is_element =
        |it: &&Named| it.0.contains(READS) && it.1 == "false-sharing" && it.2 == "pad-elements";
    named.iter().filter(is_element).count()
}

/// Whether the bytes are named as true sharing, with the advice of a copy for each thread.
fn bytes_are_shared(named: &[Named]) -> bool {
    let is_bytes =
        |it: &Named| it.0.ends_with(BYTES) && it.1 == "true-sharing" && it.2 == "per-thread-copies";
    named.iter().any(is_bytes)
}

/// Whether anything of a name is a finding, whatever the verdict.
fn has(named: &[Named], name: &str) -> bool {
    named.iter().any(|it| it.0.contains(name))
}

/// The line that a thread comes to first pays for both, since whoever has it has the other next: the array is seen, and the
/// bytes often are not, but the one is not taken for the other.
#[test]
fn live_of_two_faults_the_first_is_named() {
    check(&[], false, |named, _| {
        if has(named, BYTES) && !bytes_are_shared(named) {
            return Some("the bytes are not named as true sharing");
        }
        (n_elements(named) < 2).then_some("the array is not named as false sharing")
    });
}

#[test]
fn live_arrays_are_false_sharing() {
    check(&["--net-bytes", "per-thread"], false, |named, _| {
        if has(named, BYTES) {
            return Some("the bytes are named, which are not used");
        }
        (n_elements(named) < 2).then_some("the array is not named as false sharing")
    });
}

#[test]
fn live_bytes_are_true_sharing() {
    check(&["--stats", "counters"], false, |named, _| {
        if has(named, READS) {
            return Some("the array is named, which is not used");
        }
        (!bytes_are_shared(named)).then_some("the bytes are not named as true sharing")
    });
}

#[test]
fn live_all_apart_is_nothing() {
    check(
        &["--stats", "counters", "--net-bytes", "per-thread"],
        false,
        |named, _| {
            (has(named, "stat_") || has(named, "net_") || has(named, "IoCounts"))
                .then_some("counts are named")
        },
    );
}

#[test]
fn live_one_io_thread_has_nobody_to_share_with() {
    check(&["--io-threads", "1"], true, |named, table| {
        if has(named, READS) || has(named, BYTES) {
            return Some("counts of one thread are named");
        }
        (!table.contains("No line was found that threads fight over"))
            .then_some("it does not say that there is nothing")
    });
}
