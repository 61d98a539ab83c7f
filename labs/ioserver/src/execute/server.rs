//! Commands about the server itself: INFO, CONFIG, and the key space as a whole.

use std::fmt::Write as _;

use super::{Call, Executor, Outcome, quote, wrong_number};
use crate::config::{Config, NetBytesLayout, StatsLayout};
use crate::glob;
use crate::resp::Command;
use crate::stats::read;

type Section = (
    &'static str,
    fn(&Executor<'_>, &mut String) -> std::fmt::Result,
);

const SECTIONS: [Section; 6] = [
    ("server", server),
    ("clients", clients),
    ("memory", memory),
    ("stats", stats),
    ("threads", threads),
    ("keyspace", keyspace),
];

/// `INFO [section]…`: an unknown section is an empty one, as in Redis.
pub(super) fn info(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let everything = command.len() == 1
        || command.from(1).any(|word| {
            ["all", "default", "everything"]
                .iter()
                .any(|all| all.as_bytes().eq_ignore_ascii_case(word))
        });
    let mut text = String::new();
    for (name, write) in SECTIONS {
        let wanted = command
            .from(1)
            .any(|word| name.as_bytes().eq_ignore_ascii_case(word));
        if everything || wanted {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            // Writing into a string does not fail.
            let _ = write(call.executor, &mut text);
        }
    }
    call.reply.text(&text);
    Ok(())
}

fn server(executor: &Executor<'_>, out: &mut String) -> std::fmt::Result {
    let config = &executor.config;
    write!(
        out,
        "# Server\r\nserver_name:ioserver\r\nserver_version:{}\r\n",
        env!("CARGO_PKG_VERSION")
    )?;
    write!(
        out,
        "process_id:{}\r\ntcp_port:{}\r\n",
        std::process::id(),
        config.port
    )?;
    write!(
        out,
        "uptime_in_seconds:{}\r\n",
        executor.stats.began.elapsed().as_secs()
    )?;
    let stats = stats_name(config.stats);
    write!(
        out,
        "stats_layout:{stats}\r\nnet_bytes_layout:{}\r\n",
        net_bytes_name(config.net_bytes)
    )
}

fn stats_name(layout: StatsLayout) -> &'static str {
    match layout {
        StatsLayout::Shared => "shared",
        StatsLayout::Counters => "counters",
    }
}

fn net_bytes_name(layout: NetBytesLayout) -> &'static str {
    match layout {
        NetBytesLayout::Shared => "shared",
        NetBytesLayout::PerThread => "per-thread",
    }
}

fn clients(executor: &Executor<'_>, out: &mut String) -> std::fmt::Result {
    let clients: u64 = executor
        .stats
        .server
        .io_threads_clients_num
        .iter()
        .map(read)
        .sum();
    write!(
        out,
        "# Clients\r\nconnected_clients:{clients}\r\nmaxclients:{}\r\n",
        executor.config.limits.maxclients
    )
}

fn memory(executor: &Executor<'_>, out: &mut String) -> std::fmt::Result {
    let most = executor.config.limits.maxmemory;
    write!(
        out,
        "# Memory\r\nused_memory_dataset:{}\r\nmaxmemory:{most}\r\n",
        executor.keys.used_bytes()
    )
}

fn stats(executor: &Executor<'_>, out: &mut String) -> std::fmt::Result {
    let server = &executor.stats.server;
    let by_thread = executor.stats.by_thread();
    let (input, output) = executor.stats.net_bytes();
    let lines = [
        (
            "total_connections_received",
            read(&server.stat_numconnections),
        ),
        ("total_commands_processed", read(&server.stat_numcommands)),
        ("total_net_input_bytes", input),
        ("total_net_output_bytes", output),
        ("rejected_connections", read(&server.stat_rejected_conn)),
        ("keyspace_hits", read(&server.stat_keyspace_hits)),
        ("keyspace_misses", read(&server.stat_keyspace_misses)),
        (
            "total_error_replies",
            read(&server.stat_total_error_replies) + read(&server.stat_protocol_errors),
        ),
        (
            "total_reads_processed",
            by_thread.iter().map(|(reads, _)| reads).sum(),
        ),
        (
            "total_writes_processed",
            by_thread.iter().map(|(_, writes)| writes).sum(),
        ),
        (
            "client_query_buffer_limit_disconnections",
            read(&server.stat_client_qbuf_limit_disconnections),
        ),
        (
            "client_output_buffer_limit_disconnections",
            read(&server.stat_client_outbuf_limit_disconnections),
        ),
        ("evicted_clients", read(&server.stat_evictedclients)),
    ];
    out.push_str("# Stats\r\n");
    for (name, value) in lines {
        write!(out, "{name}:{value}\r\n")?;
    }
    Ok(())
}

fn threads(executor: &Executor<'_>, out: &mut String) -> std::fmt::Result {
    out.push_str("# Threads\r\n");
    let clients = &executor.stats.server.io_threads_clients_num;
    for (i, ((reads, writes), clients)) in
        executor.stats.by_thread().iter().zip(clients).enumerate()
    {
        write!(
            out,
            "io_thread_{i}:clients={},reads={reads},writes={writes}\r\n",
            read(clients)
        )?;
    }
    Ok(())
}

fn keyspace(executor: &Executor<'_>, out: &mut String) -> std::fmt::Result {
    out.push_str("# Keyspace\r\n");
    match executor.keys.len() {
        0 => Ok(()),
        keys => write!(out, "db0:keys={keys},expires=0,avg_ttl=0\r\n"),
    }
}

pub(super) fn config(call: &mut Call<'_, '_>, command: Command<'_>) -> Outcome {
    let which = command.get(1).unwrap_or_default().to_ascii_uppercase();
    match (which.as_slice(), command.len()) {
        (b"GET", 3..) => {
            let settings = settings(&call.executor.config);
            let wanted = |name: &str| {
                command
                    .from(2)
                    .any(|pattern| glob::matches(pattern, name.as_bytes()))
            };
            let found: Vec<_> = settings.iter().filter(|(name, _)| wanted(name)).collect();
            call.reply.map(found.len());
            for (name, value) in found {
                call.reply.bulk(name.as_bytes());
                call.reply.bulk(value.as_bytes());
            }
        }
        (b"RESETSTAT", 2) => {
            call.executor.stats.reset();
            call.reply.simple("OK");
        }
        (b"GET", _) => return Err(wrong_number("config|get")),
        (b"RESETSTAT", _) => return Err(wrong_number("config|resetstat")),
        _ => {
            return Err(format!(
                "ERR CONFIG {} is not supported by this server, GET and RESETSTAT are; settings are flags of its command line",
                quote(&which)
            )
            .into());
        }
    }
    Ok(())
}

/// All settings by the names that Redis has for them. `save` and `appendonly` are what benchmarks ask for.
fn settings(config: &Config) -> [(&'static str, String); 14] {
    let limits = &config.limits;
    [
        ("appendonly", "no".to_owned()),
        ("bind", config.bind.to_string()),
        (
            "client-output-buffer-limit",
            format!("normal {} 0 0", limits.client_output_buffer_limit),
        ),
        (
            "client-query-buffer-limit",
            limits.client_query_buffer_limit.to_string(),
        ),
        ("io-chunk", config.io_chunk.to_string()),
        ("io-threads", config.io_threads.to_string()),
        ("maxclients", limits.maxclients.to_string()),
        ("maxmemory", limits.maxmemory.to_string()),
        ("maxmemory-clients", limits.maxmemory_clients.to_string()),
        ("net-bytes", net_bytes_name(config.net_bytes).to_owned()),
        ("port", config.port.to_string()),
        ("proto-max-bulk-len", limits.proto_max_bulk_len.to_string()),
        ("save", String::new()),
        ("stats", stats_name(config.stats).to_owned()),
    ]
}

pub(super) fn dbsize(call: &mut Call<'_, '_>, _: Command<'_>) -> Outcome {
    let n_keys = call.executor.keys.len();
    call.reply
        .integer(i64::try_from(n_keys).unwrap_or(i64::MAX));
    Ok(())
}

pub(super) fn flush(call: &mut Call<'_, '_>, _: Command<'_>) -> Outcome {
    call.executor.keys.clear();
    call.reply.simple("OK");
    Ok(())
}

/// Nothing is on disk, so `NOSAVE` and `SAVE` say nothing new; there is no reply, as in Redis.
pub(super) fn shutdown(call: &mut Call<'_, '_>, _: Command<'_>) -> Outcome {
    call.executor.stop = true;
    *call.close = true;
    Ok(())
}
