//! Redis's own tools against the server: they are the judges of whether it speaks the protocol.

use std::process::Command;
use std::time::Duration;

use hitm_testkit::{Outcome, have_tool, run_limited, skip};

use crate::server::Server;
use crate::stats::threads;

const LIMIT: Duration = Duration::from_secs(60);

/// What the two tools are in.
const PACKAGE: &str = "no redis-benchmark and redis-cli: apt-get install redis-tools";

fn have_tools() -> bool {
    have_tool("redis-benchmark") && have_tool("redis-cli")
}

fn run(server: &Server, tool: &str, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(tool);
    command.args(["-p", &server.port()]).args(arguments);
    succeed(&mut command)
}

fn succeed(command: &mut Command) -> Outcome {
    let outcome = run_limited(command, LIMIT).unwrap();
    let said = format!("{command:?} {} {}", outcome.stdout, outcome.stderr);
    assert!(!outcome.timed_out && outcome.status.success(), "{said}");
    assert!(!said.contains("rror"), "{said}");
    outcome
}

/// So many requests of each test of redis-benchmark.
const REQUESTS: u64 = 3000;

fn benchmark(flags: &[&str], arguments: &[&str]) {
    if !have_tools() {
        skip!("{PACKAGE}");
    }
    let mut words = vec!["--io-threads", "3"];
    words.extend(flags);
    let server = Server::start(&words);
    let n = REQUESTS.to_string();
    let mut words = vec![
        "-t",
        "ping,set,get,incr,mset",
        "-c",
        "50",
        "-n",
        &n,
        "--csv",
    ];
    words.extend(arguments);
    let outcome = run(&server, "redis-benchmark", &words);
    let lines: Vec<&str> = outcome
        .stdout
        .lines()
        .filter(|line| line.starts_with('"'))
        .collect();
    for test in [
        "PING_INLINE",
        "PING_MBULK",
        "SET",
        "GET",
        "INCR",
        "MSET (10 keys)",
    ] {
        let line = lines
            .iter()
            .find(|line| line.starts_with(&format!("\"{test}\",")));
        let rate = line.and_then(|line| line.split('"').nth(3)?.parse::<f64>().ok());
        assert!(
            rate.is_some_and(|rate| rate > 0.0),
            "{test} in {}",
            outcome.stdout
        );
    }
    assert!(server.info("total_commands_processed") >= 6 * REQUESTS);
    assert_eq!(server.info("total_error_replies"), 0);
    // Every thread did its part, and the parts are the whole.
    let info = server.ask(b"INFO\r\n");
    let by_thread = threads(&info);
    assert_eq!(by_thread.len(), 4);
    assert!(
        by_thread[1..]
            .iter()
            .all(|(_, reads, writes)| *reads > 0 && *writes > 0),
        "{info}"
    );
    let reads: u64 = by_thread.iter().map(|(_, reads, _)| reads).sum();
    assert!(
        info.contains(&format!("total_reads_processed:{reads}\r\n")),
        "{info}"
    );
}

#[test]
fn benchmark_one_at_a_time() {
    benchmark(&[], &["-P", "1"]);
}

#[test]
fn benchmark_pipelined() {
    benchmark(
        &["--stats", "counters", "--net-bytes", "per-thread"],
        &["-P", "16"],
    );
}

#[test]
fn benchmark_of_protocol_3_with_two_threads() {
    benchmark(
        &["--stats", "counters"],
        &["-P", "16", "-3", "--threads", "2"],
    );
}

#[test]
fn cli_in_both_protocols() {
    if !have_tools() {
        skip!("{PACKAGE}");
    }
    let server = Server::start(&[]);
    let cli = |arguments: &[&str]| run(&server, "redis-cli", arguments).stdout;
    for version in ["-2", "-3"] {
        assert_eq!(cli(&[version, "ping"]), "PONG\n");
        assert_eq!(cli(&[version, "set", "k", "a value\nof two lines"]), "OK\n");
        assert_eq!(cli(&[version, "get", "k"]), "a value\nof two lines\n");
        assert_eq!(
            cli(&[version, "mget", "k", "none"]),
            "a value\nof two lines\n\n"
        );
        let info = cli(&[version, "info", "threads"]);
        assert!(
            info.starts_with("# Threads\r\nio_thread_0:clients=0,"),
            "{info}"
        );
    }
    // Shown as types: a map is one only in protocol 3.
    let shown = |version| cli(&["--no-raw", version, "config", "get", "io-threads"]);
    assert_eq!(shown("-2"), "1) \"io-threads\"\n2) \"3\"\n");
    assert_eq!(shown("-3"), "1# \"io-threads\" => \"3\"\n");
    assert_eq!(cli(&["--no-raw", "-3", "get", "none"]), "(nil)\n");
    assert_eq!(cli(&["--no-raw", "command", "count"]), "(integer) 20\n");
    assert_eq!(cli(&["-r", "3", "incr", "n"]), "1\n2\n3\n");
}

#[test]
fn cli_with_a_person() {
    if !have_tools() {
        skip!("{PACKAGE}");
    }
    let server = Server::start(&[]);
    // Without a command it asks for COMMAND DOCS, for its help.
    for version in ["-2", "-3"] {
        let port = server.port();
        let session = format!("printf 'help mset\\nping\\n' | redis-cli {version} -p {port}");
        let outcome = succeed(Command::new("sh").args(["-c", &session]));
        let said = outcome.stdout;
        assert!(said.contains("Sets the values of keys."), "{said}");
        assert!(said.ends_with("\nPONG\n"), "{said}");
    }
}

#[test]
fn cli_that_pipes_many_commands() {
    if !have_tools() {
        skip!("{PACKAGE}");
    }
    const N: usize = 20_000;
    let server = Server::start(&[]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("commands");
    let commands: String = (0..N).map(|i| format!("SET key:{i} {i}\r\n")).collect();
    std::fs::write(&file, commands).unwrap();
    let piped = format!(
        "redis-cli -p {} --pipe < '{}'",
        server.port(),
        file.display()
    );
    let outcome = run_limited(Command::new("sh").args(["-c", &piped]), LIMIT).unwrap();
    assert!(
        outcome.stdout.contains(&format!("errors: 0, replies: {N}")),
        "{outcome:?}"
    );
    assert_eq!(server.ask(b"DBSIZE\r\n"), format!(":{N}\r\n"));
}
