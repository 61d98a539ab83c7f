//! The flags, and the bounds they set.

use std::net::{IpAddr, Ipv4Addr};

use clap::{Parser, ValueEnum};

/// So many threads at most, the main thread included: the arrays of the shared layout have as many elements.
pub(crate) const THREADS_MAX: usize = 128;

/// A small server of the Redis protocol (RESP 2 and 3) with a main thread that executes and IO threads that read, parse and
/// write.
///
/// Drive it with redis-benchmark and redis-cli, and look at it with `hitm attach`. It has no passwords and keeps nothing on
/// disk.
#[derive(Clone, Debug, Parser)]
#[command(name = "ioserver", version, allow_negative_numbers = true)]
pub struct Config {
    /// TCP port; 0 lets the system choose, and the first line of output says which.
    #[arg(long, default_value_t = 6379)]
    pub port: u16,
    /// Address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind: IpAddr,
    /// IO threads beside the main thread, at most 127.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX as i64 - 1))]
    pub io_threads: u16,
    /// Bytes read or written with one system call at most. The smaller, the more of its time an IO thread counts.
    #[arg(long, value_name = "SIZE", default_value = "16kb", value_parser = chunk)]
    pub io_chunk: usize,
    /// Where each IO thread counts its reads and writes.
    #[arg(long, value_enum, default_value_t = StatsLayout::Shared)]
    pub stats: StatsLayout,
    /// Where the bytes read and written are counted.
    #[arg(long, value_enum, default_value_t = NetBytesLayout::Shared)]
    pub net_bytes: NetBytesLayout,
    /// Bounds of what clients may take.
    #[command(flatten)]
    pub limits: Limits,
}

/// Bounds of what clients may take. Sizes are bytes, or have a unit: `kb`, `mb`, `gb` (of 1,024).
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Limits {
    /// Connections at once; more are refused with an error.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub maxclients: usize,
    /// Bytes of one argument of a command.
    #[arg(long, value_name = "SIZE", default_value = "32mb", value_parser = size)]
    pub proto_max_bulk_len: usize,
    /// Bytes of commands that a client sent and that were not executed yet; above it, it is disconnected.
    #[arg(long, value_name = "SIZE", default_value = "64mb", value_parser = size)]
    pub client_query_buffer_limit: usize,
    /// Bytes of replies that a client has not read yet; above it, it is disconnected.
    #[arg(long, value_name = "SIZE", default_value = "64mb", value_parser = size)]
    pub client_output_buffer_limit: usize,
    /// Bytes of all keys and values; above it, commands that write are refused.
    #[arg(long, value_name = "SIZE", default_value = "1gb", value_parser = size)]
    pub maxmemory: usize,
    /// Bytes of all clients' buffers, an equal part for each IO thread; above it, the largest client is disconnected.
    #[arg(long, value_name = "SIZE", default_value = "512mb", value_parser = size)]
    pub maxmemory_clients: usize,
}

/// Where per-thread counts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatsLayout {
    /// In arrays with an element per thread, inside of the server's one large struct.
    Shared,
    /// In a block of each thread's own, on lines of its own (hitm-counters).
    Counters,
}

/// Where the bytes of the network are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NetBytesLayout {
    /// In one atomic of all threads for each direction.
    Shared,
    /// In each thread's own block (hitm-counters), summed up by who reads.
    PerThread,
}

/// Reads a size as Redis writes them.
fn size(text: &str) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match lower.get(digits.len()..).unwrap_or_default() {
        "" | "b" => 1,
        "kb" => 1 << 10,
        "mb" => 1 << 20,
        "gb" => 1 << 30,
        unit => {
            return Err(format!("unknown unit {unit:?}; write bytes, or kb, mb, gb"));
        }
    };
    let number: usize = digits
        .parse()
        .map_err(|error| format!("{error}; write for example 32mb"))?;
    number
        .checked_mul(unit)
        .ok_or_else(|| "larger than the address space".to_owned())
}

/// A size of which there is something, and not so much that a buffer of it per thread matters.
fn chunk(text: &str) -> Result<usize, String> {
    let bytes = size(text)?;
    if (1..=1 << 20).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("it is from 1 to 1mb".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let right = [
            ("0", 0),
            ("17", 17),
            ("17b", 17),
            ("3kb", 3072),
            ("2MB", 2 << 20),
            ("1gb", 1 << 30),
        ];
        for (text, bytes) in right {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        assert!(chunk("0").is_err() && chunk("2mb").is_err());
        assert_eq!(chunk("1mb"), Ok(1 << 20));
        for text in ["", "kb", "-1", "1.5mb", "3tb", "99999999999999gb"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
