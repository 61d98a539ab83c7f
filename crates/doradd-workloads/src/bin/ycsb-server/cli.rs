//! The flags of `ycsb-server`.

use std::path::PathBuf;

use clap::Parser;
use doradd_workloads::front::DispatchChoice;

/// Executes YCSB transactions that many clients send over TCP, in parallel, with the result of executing them one by one
/// in the order in which they were accepted
///
/// Each request is answered with its place in that order and its result. The protocol is described in docs/doradd-rpc.md;
/// `ycsb-client` speaks it. SIGINT or SIGTERM ends the server: what was accepted is executed and answered first (the second
/// signal does not wait for clients that do not read).
///
/// Exit code: 0 done, 2 wrong usage, a wrong log, or the accepted order could not be written, 3 the machine refused (memory,
/// threads, processors, the address).
#[derive(Parser, Debug)]
#[command(name = "ycsb-server", version)]
pub(crate) struct Cli {
    /// Address and port to listen at; port 0 for any free one
    #[arg(long, default_value = "127.0.0.1:7433", value_name = "ADDR")]
    pub(crate) listen: String,
    /// Rows of the table; keys from this on are refused
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) rows: u64,
    /// Bytes of a row
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = row_bytes)]
    pub(crate) row_bytes: u64,
    /// Threads that execute transactions [default: a processor each, but for one]
    #[arg(short = 'n', long, value_name = "N")]
    pub(crate) workers: Option<usize>,
    /// On how many threads requests are joined to the graph
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) dispatch: DispatchChoice,
    /// Processors for the workers, then for the dispatcher's further threads, such as 2,3
    #[arg(long, value_delimiter = ',', value_name = "CPU,…")]
    pub(crate) pin: Vec<usize>,
    /// Requests of all connections that are accepted and not executed yet, at most
    #[arg(long, default_value_t = 4096, value_name = "N")]
    pub(crate) in_flight: usize,
    /// Requests of one connection whose replies are not sent yet, at most; then it is not read any more
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) pipeline: usize,
    /// Connections at most; further ones wait
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    pub(crate) connections: usize,
    /// Write the accepted order to a new file, which `ycsb FILE --verify` can execute
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Seconds that clients have at the end to read their last replies
    #[arg(long, default_value_t = 5, value_name = "S")]
    pub(crate) patience: u64,
    /// Prints one JSON document at the end (docs/ycsb-server.schema.json) instead of lines for people
    #[arg(long)]
    pub(crate) json: bool,
    /// Serve nothing: execute the log FILE one by one and print the digests that a server must have had
    #[arg(long, value_name = "FILE", conflicts_with_all = ["listen", "log"])]
    pub(crate) check: Option<PathBuf>,
}

/// The sizes that the program is compiled for.
const ROW_BYTES: [u64; 3] = [64, 1024, 4096];

fn row_bytes(text: &str) -> anyhow::Result<u64> {
    let bytes = text.parse()?;
    anyhow::ensure!(ROW_BYTES.contains(&bytes), "rows have {ROW_BYTES:?} bytes");
    Ok(bytes)
}
