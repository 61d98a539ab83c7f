//! The flags of `ycsb-client`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use doradd_workloads::run::arrivals::Arrivals;

/// Sends the transactions of a log to a `ycsb-server` over many connections, checks every reply, and measures the time to it
///
/// Ctrl-C stops sending; replies that are owed are waited for (the second one ends at once).
///
/// Exit code: 0 every request was executed and answered as it must be, 1 not so, or the server ended meanwhile, 2 wrong usage or a wrong log, 3 the machine
/// refused: the server is not there, or there are not so many connections.
#[derive(Parser, Debug)]
#[command(name = "ycsb-client", version)]
pub(crate) struct Cli {
    /// The server, such as 127.0.0.1:7433
    #[arg(value_name = "ADDR")]
    pub(crate) address: String,
    /// The log, as `ycsb gen` writes it
    #[arg(value_name = "LOG")]
    pub(crate) log: PathBuf,
    /// Connections
    #[arg(short, long, value_name = "N", default_value = "1")]
    pub(crate) connections: NonZeroUsize,
    /// Requests of one connection that wait for replies at most
    #[arg(long, value_name = "N", default_value = "64")]
    pub(crate) pipeline: NonZeroUsize,
    /// When requests are due: `max`, as soon as a connection has room; `exp:NS`, independently, NS nanoseconds apart on average,
    /// over all connections; `fixed:NS`
    #[arg(
        short = 'i',
        long = "interval",
        value_name = "INTERVAL",
        default_value = "max"
    )]
    pub(crate) arrivals: Arrivals,
    /// What random arrivals start from
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub(crate) arrival_seed: u64,
    /// Sends the log again and again for so long [default: once]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Tries for so many seconds to connect to a server that is not there yet
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) wait: Option<Duration>,
    /// Gives up when no reply has come for so many seconds though some are owed
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    pub(crate) timeout: Duration,
    /// Prints one JSON document at the end (docs/ycsb-client.schema.json) instead of lines for people
    #[arg(long)]
    pub(crate) json: bool,
}

fn seconds(text: &str) -> anyhow::Result<Duration> {
    let time = text
        .parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.filter(|time| !time.is_zero())
        .ok_or_else(|| anyhow::anyhow!("give a number of seconds above 0"))
}
