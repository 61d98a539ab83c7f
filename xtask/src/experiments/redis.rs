//! A real server under a real client: redis-server against itself, started and stopped for every run.
//!
//! Server and client talk through a socket in the file system, so that no port can be taken. On two processors the two must
//! share them with the kernel's part of the work; -n is such that a run takes about a second there.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use hitm_testkit::have_tool;

use super::{Bench, Judged, Options, asked, quoted};
use crate::tools::install;

/// The row, and what redis-benchmark is to do. With one thread it is at its limit before the server is, where the server has
/// little to do: hitm refuses such a row.
const LOADS: [(&str, &str); 6] = [
    ("get", "-t get -n 100000 --threads 2"),
    ("set", "-t set -n 100000 --threads 2"),
    ("incr", "-t incr -n 100000 --threads 2"),
    ("lrange-300", "-t lrange_300 -n 40000"),
    ("lrange-600", "-t lrange_600 -n 25000"),
    ("get-pipeline-16", "-t get -n 1000000 -P 16 --threads 2"),
];

pub(super) fn run(bench: &Bench, options: &Options) -> Result<Vec<Judged>> {
    install(&[
        ("redis-server", "redis-server"),
        ("redis-benchmark", "redis-tools"),
    ]);
    if !have_tool("redis-server") || !have_tool("redis-benchmark") {
        bail!("no redis-server or no redis-benchmark: apt-get install redis-server redis-tools");
    }
    let sockets = tempfile::tempdir()?;
    let socket = sockets.path().join("redis").display().to_string();
    let server = format!(
        "redis-server --port 0 --unixsocket {socket} --save '' --appendonly no --dir {}",
        sockets.path().display()
    );
    let ready = format!("redis-cli -s {socket} -e ping");
    let mut rows = String::new();
    for (name, load) in LOADS.iter().filter(|(name, _)| asked(options, name)) {
        write!(
            rows,
            "[[row]]\nname = {}\nserver = {}\nready = {}\nclient = {}\nmetric = {}\nbetter = \"higher\"\n",
            quoted(name),
            quoted(&server),
            quoted(&ready),
            quoted(&format!("redis-benchmark -s {socket} -c 20 {load} --csv")),
            // The line of the test itself: lrange fills its list first, and says so in a line of its own.
            quoted(r#"(?m)^"(?:GET|SET|INCR|LRANGE_[36]00)[^"]*","([0-9.]+)""#)
        )?;
    }
    bench.against_itself("redis", &rows)
}
