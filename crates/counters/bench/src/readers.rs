//! What beginning to count and reading cost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hitm_counters::{Counter, PerThread};

use crate::machine;
use crate::measure::median;

type Thousand = [Counter; 1000];

/// The first `local()` on a thread, with a block ready and without.
pub fn registration() -> Result<()> {
    const THREADS: usize = 400;
    for (what, ready) in [("blocks ready", THREADS), ("blocks made when needed", 1)] {
        let stats = PerThread::<Thousand>::with_capacity(ready);
        // Another instance first, so that what is timed is not the thread's first use of thread-locals and allocator.
        let other = PerThread::<Counter>::with_capacity(THREADS);
        let mut nanos = Vec::new();
        let mut faults = 0;
        // All at once, so that no block is used again.
        let hold = std::sync::Barrier::new(THREADS + 1);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let spawned = scope.spawn(|| {
                        other.local().inc();
                        let before = machine::minor_faults();
                        let began = Instant::now();
                        let own = stats.local();
                        let took = began.elapsed();
                        own[0].inc();
                        let faults = machine::minor_faults() - before;
                        hold.wait();
                        (took, faults)
                    });
                    // One after another: what is measured is not the queue for a processor.
                    thread::sleep(Duration::from_micros(200));
                    spawned
                })
                .collect();
            hold.wait();
            for (took, fault) in threads.into_iter().filter_map(|thread| thread.join().ok()) {
                nanos.push(took.as_nanos() as f64);
                faults += fault;
            }
        });
        if stats.get(|block| &block[0]) != THREADS as u64 {
            bail!("counts were lost");
        }
        nanos.sort_by(f64::total_cmp);
        println!(
            "\nfirst local() of a thread, 1,000 counters, {what}: median {:.0} ns, 9 of 10 within {:.0} ns, \
             {faults} page faults in {THREADS} threads",
            median(&nanos),
            nanos[nanos.len() * 9 / 10],
        );
    }
    Ok(())
}

/// Reading 64 threads of 1,000 counters.
pub fn snapshots(rounds: usize) {
    let stats = PerThread::<Thousand>::with_capacity(64);
    let claims: Vec<_> = (0..64).map(|i| stats.claim(&i.to_string())).collect();
    claims
        .iter()
        .for_each(|own| own.iter().for_each(Counter::inc));
    let mut into = stats.snapshot();
    println!("\nreading 64 threads x 1,000 counters, microseconds (median, fastest):");
    let time = |what: &str, act: &mut dyn FnMut()| {
        let mut micros: Vec<f64> = (0..rounds.max(3) * 40)
            .map(|_| {
                let began = Instant::now();
                act();
                began.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        micros.sort_by(f64::total_cmp);
        println!("  {what:<44} {:>8.1} {:>8.1}", median(&micros), micros[0]);
    };
    time("snapshot_into, writers idle", &mut || {
        stats.snapshot_into(&mut into)
    });
    time("snapshot, writers idle", &mut || drop(stats.snapshot()));
    time("get of one counter, writers idle", &mut || {
        _ = std::hint::black_box(stats.get(|block| &block[500]))
    });
    time("threads, writers idle", &mut || drop(stats.threads()));
    time("take, writers idle", &mut || drop(stats.take()));
    let done = AtomicBool::new(false);
    let writers = thread::available_parallelism()
        .map_or(1, |n| n.get().saturating_sub(1))
        .max(1);
    thread::scope(|scope| {
        let mut shares: Vec<Vec<_>> = (0..writers).map(|_| Vec::new()).collect();
        for (i, claim) in claims.into_iter().enumerate() {
            shares[i % writers].push(claim);
        }
        for share in shares {
            let done = &done;
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    share
                        .iter()
                        .for_each(|own| own.iter().for_each(Counter::inc));
                }
            });
        }
        let what = format!("{writers} writer(s) over all blocks");
        time(&format!("snapshot_into, {what}"), &mut || {
            stats.snapshot_into(&mut into)
        });
        time(&format!("take, {what}"), &mut || drop(stats.take()));
        done.store(true, Ordering::Relaxed);
    });
}

/// What the counters of a large server cost.
pub fn memory() {
    let stats = PerThread::<[Counter; 1144]>::with_capacity(64);
    println!(
        "\n1,144 counters x 64 threads: {} KiB in blocks, {} KiB if each counter had a line of {} bytes",
        stats.bytes() / 1024,
        1144 * 64 * hitm_counters::line::APART / 1024,
        hitm_counters::line::APART,
    );
}
