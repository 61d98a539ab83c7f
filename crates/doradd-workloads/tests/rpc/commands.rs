//! `ycsb-server` and `ycsb-client` as commands: signals, digests, JSON, and what they say when something is not there.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use doradd_workloads::rpc::{client_schema, server_schema};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

const YCSB: &str = env!("CARGO_BIN_EXE_ycsb");
const SERVER: &str = env!("CARGO_BIN_EXE_ycsb-server");
const CLIENT: &str = env!("CARGO_BIN_EXE_ycsb-client");
const TABLE: [&str; 4] = ["--rows", "500", "--row-bytes", "64"];

/// A folder with a log of some transactions.
fn folder(transactions: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new(YCSB);
    command.args([
        "gen",
        "--rows",
        "500",
        "--contention",
        "high",
        "--txns",
        transactions,
        "-o",
    ]);
    assert!(command.arg(log).status().unwrap().success());
    folder
}

/// A server as a process; killed if a test fails.
struct Running {
    child: Child,
    address: String,
    said: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(options: &[&str], through: &[&str]) -> Self {
        let mut words = through
            .iter()
            .copied()
            .chain([SERVER, "--listen", "127.0.0.1:0"]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(TABLE).args(options);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line
            .split_whitespace()
            .find(|word| word.starts_with("127.0.0.1:"));
        let address = address
            .unwrap_or_else(|| panic!("{line}"))
            .trim_end_matches(',')
            .to_owned();
        Self {
            child,
            address,
            said,
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    /// Ends the server; its standard output, and what it said.
    fn stop(mut self, signal: Signal) -> (Option<i32>, String, String) {
        self.signal(signal);
        let (mut out, mut said) = (String::new(), String::new());
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        self.said.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), out, said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn client(address: &str, folder: &Path, options: &str) -> Output {
    let mut command = Command::new(CLIENT);
    command
        .arg(address)
        .arg(folder.join("log"))
        .args(options.split_whitespace());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The word after a label.
fn after<'t>(text: &'t str, label: &str) -> &'t str {
    let (_, rest) = text
        .split_once(label)
        .unwrap_or_else(|| panic!("no {label:?} in {text}"));
    rest.split_whitespace().next().unwrap()
}

/// The proof from end to end: clients, server, its log, `ycsb --verify` and the serial oracle agree.
#[test]
fn the_log_of_a_server_gives_its_digests() {
    let folder = folder("3000");
    let order = folder.path().join("order");
    let order = order.to_str().unwrap();
    let server = Running::start(&["--log", order], &[]);
    let clients: Vec<Output> = std::thread::scope(|scope| {
        let run = |options| client(&server.address, folder.path(), options);
        let threads: Vec<_> = [
            "-c 3 --pipeline 5",
            "-c 1 -i exp:20000",
            "-c 20 -i fixed:30000",
        ]
        .map(|options| scope.spawn(move || run(options)))
        .into_iter()
        .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    for output in &clients {
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        assert!(text(&output.stdout).contains("answered    3,000 of 3,000 requests"));
    }
    let last = client(&server.address, folder.path(), "");
    let (code, said, _) = server.stop(Signal::SIGTERM);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.starts_with("12000 transactions accepted: 12000 executed"),
        "{said}"
    );

    let oracle = Command::new(SERVER)
        .args(["--check", order])
        .args(TABLE)
        .output()
        .unwrap();
    let oracle = text(&oracle.stdout);
    assert_eq!(after(oracle, "state digest"), after(&said, "state digest"));
    assert_eq!(
        after(oracle, "results digest"),
        after(&said, "results digest")
    );
    assert_eq!(
        after(text(&last.stdout), "results digest"),
        after(&said, "results digest")
    );
    let verified = Command::new(YCSB)
        .arg(order)
        .args(TABLE)
        .arg("--verify")
        .output()
        .unwrap();
    assert_eq!(verified.status.code(), Some(0));
    let verified = text(&verified.stdout);
    assert!(
        verified.contains(&format!("digest {}", after(&said, "state digest"))),
        "{verified}"
    );
}

#[test]
fn a_killed_server_leaves_the_order_of_what_it_answered() {
    let folder = folder("100000");
    let order = folder.path().join("order");
    let server = Running::start(&["--log", order.to_str().unwrap()], &[]);
    let address = server.address.clone();
    let output = std::thread::scope(|scope| {
        let client = scope.spawn(|| client(&address, folder.path(), "-c 4 --seconds 30"));
        std::thread::sleep(std::time::Duration::from_millis(500));
        server.signal(Signal::SIGKILL);
        client.join().unwrap()
    });
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stdout);
    assert!(
        said.contains("broken      4 connections ended without a word"),
        "{said}"
    );
    let answered: u64 = after(said, "answered").replace(',', "").parse().unwrap();
    // What follows the records that the header tells of was never executed.
    let bytes = std::fs::read(&order).unwrap();
    let records = u32::from_le_bytes(bytes[..4].try_into().unwrap());
    assert!(
        u64::from(records) >= answered,
        "{records} records, {answered} answered"
    );
    let length = 4 + 128 * records as usize;
    assert!(bytes.len() >= length);
    std::fs::write(&order, &bytes[..length]).unwrap();
    let order = order.to_str().unwrap();
    let verified = Command::new(YCSB)
        .arg(order)
        .args(TABLE)
        .arg("--verify")
        .output()
        .unwrap();
    assert_eq!(
        verified.status.code(),
        Some(0),
        "{}",
        text(&verified.stderr)
    );
}

#[test]
fn a_server_that_ends_says_goodbye() {
    let folder = folder("1000");
    let server = Running::start(&[], &[]);
    let address = server.address.clone();
    let (output, ended) = std::thread::scope(|scope| {
        let client = scope.spawn(|| client(&address, folder.path(), "-c 2 --seconds 30"));
        std::thread::sleep(std::time::Duration::from_millis(500));
        let ended = server.stop(Signal::SIGINT);
        (client.join().unwrap(), ended)
    });
    let said = text(&output.stdout);
    assert_eq!(
        (output.status.code(), ended.0),
        (Some(1), Some(0)),
        "{said}"
    );
    assert!(
        said.contains("ended       2 connections, because the server ended"),
        "{said}"
    );
    let answered = after(said, "answered").replace(',', "");
    assert_eq!(
        after(&ended.1, ""),
        answered,
        "what was accepted was answered: {}",
        ended.1
    );
}

#[test]
fn descriptors_run_out_and_come_back() {
    let folder = folder("100");
    // The shell keeps the limit from being raised again.
    let limited = ["sh", "-c", "ulimit -n 40; exec \"$0\" \"$@\""];
    let server = Running::start(&[], &limited);
    let open: Vec<_> = (0..60)
        .map(|_| std::net::TcpStream::connect(&server.address).unwrap())
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(300));
    drop(open);
    let output = client(&server.address, folder.path(), "-c 10");
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    let (code, _, said) = server.stop(Signal::SIGTERM);
    assert_eq!(code, Some(0));
    assert!(
        said.contains("no file descriptor for another connection"),
        "{said}"
    );
    assert!(
        said.contains("new connections are accepted again"),
        "{said}"
    );
    assert_eq!(
        said.matches("no file descriptor").count(),
        1,
        "said once: {said}"
    );
}

#[test]
fn refusals_say_what_to_do() {
    let folder = folder("10");
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let nobody = client(&free, folder.path(), "");
    assert_eq!(nobody.status.code(), Some(3));
    assert!(
        text(&nobody.stderr).contains(&format!("ycsb-server --listen {free}")),
        "{nobody:?}"
    );

    let server = Running::start(&[], &[]);
    let taken = Command::new(SERVER)
        .args(["--listen", &server.address])
        .args(TABLE)
        .output()
        .unwrap();
    assert_eq!(taken.status.code(), Some(3));
    assert!(text(&taken.stderr).contains("use `--listen`"), "{taken:?}");
    let log = folder.path().join("log");
    let exists = Command::new(SERVER)
        .args(["--listen", "127.0.0.1:0", "--log"])
        .arg(&log)
        .args(TABLE)
        .output()
        .unwrap();
    assert_eq!(exists.status.code(), Some(2));
    assert!(
        text(&exists.stderr).contains("name a file that does not exist"),
        "{exists:?}"
    );

    // A log that names rows which the server has not.
    let wide = folder.path().join("wide");
    std::fs::create_dir(&wide).unwrap();
    let mut command = Command::new(YCSB);
    command
        .args(["gen", "--rows", "100000", "--txns", "10", "-o"])
        .arg(wide.join("log"));
    assert!(command.status().unwrap().success());
    let refused = client(&server.address, &wide, "");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stdout).contains("refused: the server has fewer rows"),
        "{refused:?}"
    );
}

/// A server that accepts and never answers, and one that answers with other bytes.
#[test]
fn servers_of_another_kind_are_told() {
    let folder = folder("10");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let silent = client(&address, folder.path(), "--timeout 0.3");
    assert_eq!(silent.status.code(), Some(1));
    assert!(text(&silent.stdout).contains("no reply for"), "{silent:?}");
    drop(listener.accept());
    let other = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.read(&mut [0; 100]);
        std::io::Write::write_all(
            &mut socket,
            b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        )
        .unwrap();
    });
    let wrong = client(&address, folder.path(), "");
    other.join().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(
        text(&wrong.stdout).contains("is it a ycsb-server?"),
        "{wrong:?}"
    );
}

fn check_schema(schema: &str, document: &str) -> Value {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator
        .iter_errors(&document)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors, [""; 0]);
    document
}

#[test]
fn json_follows_its_schemas() {
    let folder = folder("200");
    let server = Running::start(&["--json"], &[]);
    let output = client(
        &server.address,
        folder.path(),
        "-c 2 -i exp:50000 --json --seconds 1.5",
    );
    assert_eq!(output.status.code(), Some(0));
    let of_client = check_schema(&client_schema(), text(&output.stdout));
    let (_, out, _) = server.stop(Signal::SIGTERM);
    let of_server = check_schema(&server_schema(), &out);
    assert_eq!(
        of_client["state"]["results_digest"],
        of_server["results_digest"]
    );
    assert_eq!(
        of_client["answers"]["executed"],
        of_server["statistics"]["executed"]
    );
    assert_eq!(of_client["figures"]["seconds"].as_array().unwrap().len(), 1);
}

/// `UPDATE=1` writes the files anew.
#[test]
fn the_schema_files_are_in_step() {
    for (name, schema) in [
        ("ycsb-client", client_schema()),
        ("ycsb-server", server_schema()),
    ] {
        let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let path = docs.join(format!("{name}.schema.json"));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &schema).unwrap();
        }
        let file = std::fs::read_to_string(&path).unwrap();
        assert!(
            file == schema,
            "docs/{name}.schema.json is out of step: run `UPDATE=1 cargo test -p doradd-workloads`, and raise RPC_JSON_VERSION if a value went or changed its meaning"
        );
    }
}
