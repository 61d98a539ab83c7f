//! What the threads count, which is what this lab is about.
//!
//! [`Server`] is the layout that is looked at: one large struct, as servers have, in which each IO thread's counts are
//! elements of arrays, eight to a line, beside what the main thread writes with each command. [`IoCounts`] is the repaired
//! layout: a block for each thread on lines of its own. The flags choose, at each count, which of the two is written.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use hitm_counters::{Claim, Counter, Counters, PerThread};

use crate::config::{Config, Limits, NetBytesLayout, StatsLayout, THREADS_MAX};

/// The server's state that several threads use. The order of the fields is that of the text, and the base is aligned, so
/// that it is the same lines in every build. Everything is relaxed: these are counts, and order nothing.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Server {
    // Written by all threads.
    stat_net_input_bytes: AtomicU64,
    stat_net_output_bytes: AtomicU64,
    // Written by the main thread when a connection comes or goes. 0 is the main thread, in all of these arrays.
    pub(crate) io_threads_clients_num: [AtomicU64; THREADS_MAX],
    // Written by any thread, seldom.
    pub(crate) stat_protocol_errors: AtomicU64,
    pub(crate) stat_client_qbuf_limit_disconnections: AtomicU64,
    pub(crate) stat_client_outbuf_limit_disconnections: AtomicU64,
    pub(crate) stat_evictedclients: AtomicU64,
    // Written by the main thread, with each command or connection.
    pub(crate) stat_numconnections: AtomicU64,
    pub(crate) stat_rejected_conn: AtomicU64,
    pub(crate) stat_total_error_replies: AtomicU64,
    pub(crate) stat_keyspace_hits: AtomicU64,
    pub(crate) stat_keyspace_misses: AtomicU64,
    pub(crate) stat_numcommands: AtomicU64,
    // Written by each thread, an element each.
    stat_io_reads_processed: [AtomicU64; THREADS_MAX],
    stat_io_writes_processed: [AtomicU64; THREADS_MAX],
}

/// A global, as a server's state often is; so there is one server in a process.
static SERVER: Server = Server::new();

// The elements of IO threads 1 to 3 are beside what the main thread writes with each command.
const _: () = {
    let third = offset_of!(Server, stat_io_reads_processed) + 3 * size_of::<AtomicU64>();
    assert!(offset_of!(Server, stat_numcommands) / 64 == third / 64);
};

/// What one thread counts, in the repaired layout.
#[derive(Debug, Counters)]
pub(crate) struct IoCounts {
    /// Times that a socket was read.
    reads: Counter,
    /// Times that a socket was written.
    writes: Counter,
    /// Bytes read from sockets.
    net_input_bytes: Counter,
    /// Bytes written to sockets.
    net_output_bytes: Counter,
}

/// Both layouts, and which is used.
#[derive(Debug)]
pub(crate) struct Stats {
    pub(crate) server: &'static Server,
    pub(crate) limits: Limits,
    counts: PerThread<IoCounts>,
    stats: StatsLayout,
    net_bytes: NetBytesLayout,
    pub(crate) n_threads: usize,
    pub(crate) began: Instant,
}

/// Adds one where one thread alone writes: no lock prefix.
pub(crate) fn bump(counter: &AtomicU64) {
    add_own(counter, 1);
}

/// Adds where one thread alone writes.
pub(crate) fn add_own(counter: &AtomicU64, n: u64) {
    let value = counter.load(Ordering::Relaxed);
    counter.store(value.wrapping_add(n), Ordering::Relaxed);
}

const fn zeros() -> [AtomicU64; THREADS_MAX] {
    [const { AtomicU64::new(0) }; THREADS_MAX]
}

impl Server {
    const fn new() -> Self {
        Self {
            stat_numcommands: AtomicU64::new(0),
            stat_numconnections: AtomicU64::new(0),
            stat_rejected_conn: AtomicU64::new(0),
            stat_keyspace_hits: AtomicU64::new(0),
            stat_keyspace_misses: AtomicU64::new(0),
            stat_total_error_replies: AtomicU64::new(0),
            stat_net_input_bytes: AtomicU64::new(0),
            stat_net_output_bytes: AtomicU64::new(0),
            stat_io_reads_processed: zeros(),
            stat_io_writes_processed: zeros(),
            io_threads_clients_num: zeros(),
            stat_protocol_errors: AtomicU64::new(0),
            stat_client_qbuf_limit_disconnections: AtomicU64::new(0),
            stat_client_outbuf_limit_disconnections: AtomicU64::new(0),
            stat_evictedclients: AtomicU64::new(0),
        }
    }
}

impl Stats {
    pub(crate) fn new(config: &Config, limits: Limits) -> Self {
        let n_threads = usize::from(config.io_threads) + 1;
        Self {
            server: &SERVER,
            limits,
            counts: PerThread::with_capacity(n_threads),
            stats: config.stats,
            net_bytes: config.net_bytes,
            n_threads,
            began: Instant::now(),
        }
    }

    /// What a thread counts with; the main thread is number 0.
    pub(crate) fn tally(&self, thread: usize) -> Tally {
        Tally {
            server: self.server,
            own: self.counts.claim(&thread_name(thread)),
            thread,
            stats: self.stats,
            net_bytes: self.net_bytes,
        }
    }

    /// Reads and writes of each thread.
    pub(crate) fn by_thread(&self) -> Vec<(u64, u64)> {
        let server = self.server;
        match self.stats {
            StatsLayout::Shared => (server.stat_io_reads_processed.iter())
                .zip(&server.stat_io_writes_processed)
                .take(self.n_threads)
                .map(|(reads, writes)| (read(reads), read(writes)))
                .collect(),
            StatsLayout::Counters => {
                let mut counts = vec![(0, 0); self.n_threads];
                for thread in self.counts.threads().iter() {
                    let values = thread.values();
                    let number = (0..self.n_threads).find(|i| thread_name(*i) == thread.name());
                    if let Some(slot) = number.and_then(|number| counts.get_mut(number)) {
                        *slot = (values.reads, values.writes);
                    }
                }
                counts
            }
        }
    }

    /// Bytes read and written, by all threads.
    pub(crate) fn net_bytes(&self) -> (u64, u64) {
        match self.net_bytes {
            NetBytesLayout::Shared => (
                read(&self.server.stat_net_input_bytes),
                read(&self.server.stat_net_output_bytes),
            ),
            NetBytesLayout::PerThread => {
                let total = self.counts.snapshot().values();
                (total.net_input_bytes, total.net_output_bytes)
            }
        }
    }

    /// Starts all counts from zero, but not those of what exists now.
    pub(crate) fn reset(&self) {
        let server = self.server;
        let single = [
            &server.stat_numcommands,
            &server.stat_numconnections,
            &server.stat_rejected_conn,
            &server.stat_keyspace_hits,
            &server.stat_keyspace_misses,
            &server.stat_total_error_replies,
            &server.stat_net_input_bytes,
            &server.stat_net_output_bytes,
            &server.stat_protocol_errors,
            &server.stat_client_qbuf_limit_disconnections,
            &server.stat_client_outbuf_limit_disconnections,
            &server.stat_evictedclients,
        ];
        let arrays = [
            &server.stat_io_reads_processed,
            &server.stat_io_writes_processed,
        ];
        for counter in single.into_iter().chain(arrays.into_iter().flatten()) {
            counter.store(0, Ordering::Relaxed);
        }
        self.counts.reset();
    }
}

/// The value at about now.
pub(crate) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// What INFO and the system call a thread.
pub(crate) fn thread_name(thread: usize) -> String {
    format!("io_thread_{thread}")
}

/// One thread's way to count.
#[derive(Debug)]
pub(crate) struct Tally {
    server: &'static Server,
    own: Claim<IoCounts>,
    thread: usize,
    stats: StatsLayout,
    net_bytes: NetBytesLayout,
}

impl Tally {
    /// A socket was read.
    pub(crate) fn reads(&self) {
        match self.stats {
            StatsLayout::Shared => {
                let counter = &self.server.stat_io_reads_processed[self.thread];
                counter.fetch_add(1, Ordering::Relaxed);
            }
            StatsLayout::Counters => self.own.reads.inc(),
        }
    }

    /// So many bytes were read.
    pub(crate) fn received(&self, bytes: usize) {
        match self.net_bytes {
            NetBytesLayout::Shared => {
                let counter = &self.server.stat_net_input_bytes;
                counter.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            NetBytesLayout::PerThread => self.own.net_input_bytes.add(bytes as u64),
        }
    }

    /// A socket was written.
    pub(crate) fn writes(&self) {
        match self.stats {
            StatsLayout::Shared => {
                let counter = &self.server.stat_io_writes_processed[self.thread];
                counter.fetch_add(1, Ordering::Relaxed);
            }
            StatsLayout::Counters => self.own.writes.inc(),
        }
    }

    /// So many bytes were written.
    pub(crate) fn sent(&self, bytes: usize) {
        match self.net_bytes {
            NetBytesLayout::Shared => {
                let counter = &self.server.stat_net_output_bytes;
                counter.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            NetBytesLayout::PerThread => self.own.net_output_bytes.add(bytes as u64),
        }
    }
}
