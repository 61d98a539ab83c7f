//! Counting by processor: nothing is lost while threads move, in either way of counting.

use std::process::Command;
use std::thread;

use hitm_counters::{
    Counter, Counters, CpuMode, Histogram, Max, Min, PerCpu, SignedCounter, buckets,
};

#[derive(Counters)]
struct Stats {
    events: Counter,
    balance: SignedCounter,
    sizes: Histogram<2, { buckets(2, 16) }>,
    longest: Max,
    shortest: Min,
}

fn count(stats: &PerCpu<Stats>) {
    const THREADS: u64 = 16;
    const EACH: u64 = if cfg!(miri) { 50 } else { 20_000 };
    let mut taken = 0;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn(move || {
                    for i in 0..EACH {
                        stats.add(|s| &s.events, 1);
                        stats.add_signed(|s| &s.balance, -1);
                        stats.record(|s| &s.sizes, i % 1000);
                        if i % 5000 == 0 {
                            // Moves to another processor, maybe.
                            thread::yield_now();
                        }
                    }
                    stats.see_max(|s| &s.longest, 10 + thread);
                    stats.see_min(|s| &s.shortest, 10 + thread);
                })
            })
            .collect();
        while !threads.iter().all(|thread| thread.is_finished()) {
            taken += stats.take().values().events;
            thread::yield_now();
        }
    });
    let total = THREADS * EACH;
    let values = stats.take().values();
    assert_eq!(taken + values.events, total);
    stats.add(|s| &s.events, 7);
    assert_eq!(stats.get(|s| &s.events), 7);
}

/// Set in the process that the C library must not register restartable sequences for.
const WITHOUT_RSEQ: &str = "COUNTERS_TEST_WITHOUT_RSEQ";

/// A machine without restartable sequences is one where the C library is told not to use them: another process.
#[test]
#[cfg_attr(miri, ignore = "starts a process")]
fn without_restartable_sequences_it_falls_back_by_itself() {
    let same = "per_cpu::nothing_is_lost_as_this_machine_counts";
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", same, "--nocapture"])
        .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
        .env(WITHOUT_RSEQ, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    // A name that is no test any more would pass, too.
    assert!(text.contains("1 passed"), "{text}");
}

#[test]
fn nothing_is_lost_as_this_machine_counts() {
    let stats = PerCpu::<Stats>::new();
    if std::env::var_os(WITHOUT_RSEQ).is_some() {
        assert_eq!(stats.mode(), CpuMode::Shared);
    } else if stats.mode() != CpuMode::Restartable {
        println!("SKIPPED: no restartable sequences here (glibc 2.35 on x86-64 has them)");
    }
    count(&stats);
    if stats.mode() == CpuMode::Restartable {
        let blocks = stats.blocks();
        let shared = blocks
            .iter()
            .filter(|block| block.name().starts_with("shared"));
        let atomic: u64 = shared.map(|block| block.values().events).sum();
        assert_eq!(atomic, 0, "every thread had its area");
    }
}

#[test]
fn nothing_is_lost_in_shared_blocks() {
    let stats = PerCpu::<Stats>::new_shared();
    assert_eq!(stats.mode(), CpuMode::Shared);
    count(&stats);
}

#[test]
fn all_kinds_are_summed_up() {
    for stats in [PerCpu::<Stats>::new(), PerCpu::new_shared()] {
        thread::scope(|scope| {
            for i in 0..4_u64 {
                let stats = &stats;
                scope.spawn(move || {
                    stats.add_signed(|s| &s.balance, -2);
                    stats.record(|s| &s.sizes, i);
                    stats.see_max(|s| &s.longest, i);
                    stats.see_min(|s| &s.shortest, i);
                });
            }
        });
        let values = stats.take().values();
        assert_eq!((values.events, values.balance), (0, -8));
        assert_eq!((values.sizes.count(), values.sizes.sum()), (4, 6));
        assert_eq!((values.longest, values.shortest), (Some(3), Some(0)));
        assert_eq!(stats.take().values().longest, None);
    }
}
