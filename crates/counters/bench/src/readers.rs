//! What beginning to count and reading cost.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hitm_counters::{Counter, Isolated, PerThread};

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
pub fn snapshots(cpus: &[usize], rounds: usize) {
    if let Some(first) = cpus.first() {
        machine::pin(*first);
    }
    let stats = PerThread::<Thousand>::with_capacity(64);
    let claims: Vec<_> = (0..64).map(|i| stats.claim(&i.to_string())).collect();
    claims
        .iter()
        .for_each(|own| own.iter().for_each(Counter::inc));
    let mut into = stats.snapshot();
    println!("\nreading 64 threads x 1,000 counters, microseconds (median, fastest):");
    // How often writers went over a block: shows whether they ran while something was timed.
    let progress = Isolated::new(AtomicU64::new(0));
    let time = |what: &str, writers: bool, act: &mut dyn FnMut()| {
        let (mut micros, mut passes) = (Vec::new(), Vec::new());
        let (wanted, tries) = (rounds.max(3) * 40, rounds.max(3) * 2000);
        for _ in 0..tries {
            let before = progress.load(Ordering::Relaxed);
            let (began, cpu) = (Instant::now(), machine::thread_time());
            act();
            let used = (machine::thread_time() - cpu).as_secs_f64() * 1e6;
            let took = began.elapsed().as_secs_f64() * 1e6;
            // A reader that lost its processor measures the scheduler.
            if took > 5.0 && used < 0.8 * took {
                continue;
            }
            // A block takes a writer a third of a microsecond and more.
            let blocks = progress.load(Ordering::Relaxed) - before;
            let ran = blocks > 5;
            if ran == writers {
                micros.push(took);
                passes.push(blocks as f64);
            }
            if micros.len() == wanted {
                break;
            }
        }
        micros.sort_by(f64::total_cmp);
        let fastest = micros.first().copied().unwrap_or(f64::NAN);
        passes.sort_by(f64::total_cmp);
        let n = micros.len();
        let written = median(&passes);
        println!(
            "  {what:<44} {:>8.1} {fastest:>8.1}   {n} readings, {written:.0} blocks written meanwhile",
            median(&micros)
        );
    };
    time("snapshot_into, writers idle", false, &mut || {
        stats.snapshot_into(&mut into)
    });
    time("snapshot, writers idle", false, &mut || {
        drop(stats.snapshot())
    });
    time("get of one counter, writers idle", false, &mut || {
        _ = std::hint::black_box(stats.get(|block| &block[500]))
    });
    time("threads, writers idle", false, &mut || {
        drop(stats.threads())
    });
    time("take, writers idle", false, &mut || drop(stats.take()));
    let done = AtomicBool::new(false);
    let writers = thread::available_parallelism()
        .map_or(1, |n| n.get().saturating_sub(1))
        .max(1);
    thread::scope(|scope| {
        let mut shares: Vec<Vec<_>> = (0..writers).map(|_| Vec::new()).collect();
        for (i, claim) in claims.into_iter().enumerate() {
            shares[i % writers].push(claim);
        }
        for (i, share) in shares.into_iter().enumerate() {
            let cpu = cpus.get(1 + i).copied();
            let (done, progress) = (&done, &progress);
            scope.spawn(move || {
                if let Some(cpu) = cpu {
                    machine::pin(cpu);
                }
                while !done.load(Ordering::Relaxed) {
                    for own in &share {
                        own.iter().for_each(Counter::inc);
                        progress.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let what = format!("{writers} writer(s) over all blocks");
        time(&format!("snapshot_into, {what}"), true, &mut || {
            stats.snapshot_into(&mut into)
        });
        time(&format!("take, {what}"), true, &mut || drop(stats.take()));
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
