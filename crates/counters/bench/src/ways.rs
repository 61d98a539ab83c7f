//! The ways of counting that are compared. Each does the same: every thread adds one, again and again, through what it
//! would keep in a hot loop, and the sum is checked in the end.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use contatori::counters::{CounterValue, Observable as _};
use crossbeam_utils::CachePadded;
use hitm_counters::{Counter, PerCpu, PerThread};

/// A way to count.
pub trait Way: Sync {
    /// Adds one, `n` times, as the thread of this number.
    fn count(&self, thread: usize, n: u64);
    /// What has been counted, where the way can tell.
    fn total(&self) -> Option<u64>;
}

/// A name and how to make it anew.
pub type Entry = (&'static str, fn() -> Box<dyn Way>);

/// The first is what the others are compared with.
pub const WAYS: [Entry; 16] = [
    ("plain u64 of the thread, not shared", || Box::new(Plain)),
    ("thread_local! Cell, looked up each time", || {
        Box::new(ThreadLocalCell)
    }),
    ("hitm-counters, handle kept", || {
        Box::new(Handle(PerThread::new()))
    }),
    ("hitm-counters, with() each time", || {
        Box::new(With(PerThread::new()))
    }),
    ("hitm-counters, local() each time", || {
        Box::new(Local(PerThread::new()))
    }),
    ("hitm-counters, per CPU", || Box::new(Cpu(PerCpu::new()))),
    ("hitm-counters, per CPU without rseq", || {
        Box::new(Cpu(PerCpu::new_shared()))
    }),
    ("one shared AtomicU64", || {
        Box::new(Shared(AtomicU64::new(0)))
    }),
    ("dense [AtomicU64; N], fetch_add", || {
        Box::new(Dense(Default::default(), true))
    }),
    ("dense [AtomicU64; N], load and store", || {
        Box::new(Dense(Default::default(), false))
    }),
    ("[CachePadded<AtomicU64>; N] (crossbeam)", || {
        Box::new(Padded(Default::default()))
    }),
    ("thread_local 1.1, get_or each time", || {
        Box::new(Objects(Default::default()))
    }),
    ("metrics 0.24, counter kept", || {
        Box::new(Facade(Default::default()))
    }),
    ("prometheus 0.14, IntCounter", || {
        Box::new(Prometheus(new_prometheus()))
    }),
    ("prometheus-client 0.26, Counter", || {
        Box::new(Client(Default::default()))
    }),
    ("contatori 0.7, Unsigned", || {
        Box::new(Contatori(contatori::counters::unsigned::Unsigned::new()))
    }),
];

/// Each update is one of its own: the compiler may not keep the sum in a register.
#[inline(always)]
fn repeat(n: u64, mut add: impl FnMut()) {
    for _ in 0..n {
        add();
    }
}

struct Plain;

impl Way for Plain {
    fn count(&self, _: usize, n: u64) {
        let own = CachePadded::new(Cell::new(0_u64));
        repeat(n, || {
            let own = black_box(&*own);
            own.set(own.get() + 1);
        });
        assert_eq!(own.get(), n);
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

thread_local! {
    static CELL: Cell<u64> = const { Cell::new(0) };
}

struct ThreadLocalCell;

impl Way for ThreadLocalCell {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || {
            CELL.with(|own| {
                let own = black_box(own);
                own.set(own.get() + 1);
            });
        });
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

struct Handle(PerThread<Counter>);

impl Way for Handle {
    fn count(&self, _: usize, n: u64) {
        let own = self.0.local();
        repeat(n, || black_box(&*own).inc());
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.snapshot().values())
    }
}

struct With(PerThread<Counter>);

impl Way for With {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || black_box(&self.0).with(Counter::inc));
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.snapshot().values())
    }
}

struct Local(PerThread<Counter>);

impl Way for Local {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || black_box(&self.0).local().inc());
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.snapshot().values())
    }
}

struct Cpu(PerCpu<Counter>);

impl Way for Cpu {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || black_box(&self.0).add(|counter| counter, 1));
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.snapshot().values())
    }
}

struct Shared(AtomicU64);

impl Way for Shared {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || {
            black_box(&self.0).fetch_add(1, Relaxed);
        });
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.load(Relaxed))
    }
}

struct Dense([AtomicU64; 8], bool);

impl Way for Dense {
    fn count(&self, thread: usize, n: u64) {
        let own = &self.0[thread];
        if self.1 {
            repeat(n, || {
                black_box(own).fetch_add(1, Relaxed);
            });
        } else {
            repeat(n, || {
                let own = black_box(own);
                own.store(own.load(Relaxed) + 1, Relaxed);
            });
        }
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.iter().map(|own| own.load(Relaxed)).sum())
    }
}

struct Padded([CachePadded<AtomicU64>; 8]);

impl Way for Padded {
    fn count(&self, thread: usize, n: u64) {
        let own = &self.0[thread];
        repeat(n, || {
            black_box(own).fetch_add(1, Relaxed);
        });
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.iter().map(|own| own.load(Relaxed)).sum())
    }
}

struct Objects(thread_local::ThreadLocal<CachePadded<AtomicU64>>);

impl Way for Objects {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || {
            let own = black_box(&self.0).get_or(Default::default);
            own.store(own.load(Relaxed) + 1, Relaxed);
        });
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.iter().map(|own| own.load(Relaxed)).sum())
    }
}

/// Recorders of this facade hand out atomics like this one.
struct Facade(Arc<AtomicU64>);

impl Way for Facade {
    fn count(&self, _: usize, n: u64) {
        let own = metrics::Counter::from_arc(Arc::clone(&self.0));
        repeat(n, || black_box(&own).increment(1));
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.load(Relaxed))
    }
}

fn new_prometheus() -> prometheus::IntCounter {
    prometheus::IntCounter::new("count", "Counts").expect("the name is valid")
}

struct Prometheus(prometheus::IntCounter);

impl Way for Prometheus {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || black_box(&self.0).inc());
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.get())
    }
}

struct Client(prometheus_client::metrics::counter::Counter);

impl Way for Client {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || {
            black_box(&self.0).inc();
        });
    }

    fn total(&self) -> Option<u64> {
        Some(self.0.get())
    }
}

struct Contatori(contatori::counters::unsigned::Unsigned);

impl Way for Contatori {
    fn count(&self, _: usize, n: u64) {
        repeat(n, || black_box(&self.0).add(1));
    }

    fn total(&self) -> Option<u64> {
        match self.0.value() {
            CounterValue::Unsigned(n) => Some(n),
            _ => None,
        }
    }
}
