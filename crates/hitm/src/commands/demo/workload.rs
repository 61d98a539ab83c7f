//! The program that the demo samples: a per-thread collector.
//!
//! Each thread adds to a counter of its own, so no value is shared; but in the packed layout all counters are on one
//! line. The additions are atomic (`lock add`), as counters that others read meanwhile are: plain additions would hide
//! the cost in the store buffer on many processors.
//!
//! The time is cut into slices, the same for all threads. A slice counts for the comparison only if every thread ran
//! through all of it: what happens while one of them has no processor says nothing about the layout.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use hitm_collect::machine::{SystemFiles, allowed_cpus, pin};
use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};

/// As many counters as fit a line of 64 bytes.
pub(super) const MOST_THREADS: usize = 8;

/// All counters on one line.
#[repr(C, align(64))]
struct Packed {
    hits: [AtomicU64; MOST_THREADS],
}

/// A counter with a pair of lines of its own.
#[repr(C, align(128))]
struct Padded {
    hits: AtomicU64,
}

const _: () = {
    assert!(
        size_of::<Packed>() == 64 && align_of::<Packed>() == 64,
        "one line, and no more"
    );
    assert!(
        size_of::<Padded>() == 128 && align_of::<Padded>() == 128,
        "two lines each"
    );
};

static COUNTS: Packed = Packed {
    hits: [const { AtomicU64::new(0) }; MOST_THREADS],
};

static PADDED_COUNTS: [Padded; MOST_THREADS] = [const {
    Padded {
        hits: AtomicU64::new(0),
    }
}; MOST_THREADS];

/// How the counters are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Layout {
    Packed,
    Padded,
}

impl Layout {
    /// The word for it on the command line.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Packed => "packed",
            Self::Padded => "padded",
        }
    }
}

/// What to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Work {
    pub(super) layout: Layout,
    pub(super) threads: usize,
    pub(super) length: Duration,
    /// Whether it is for the comparison: then each thread stays on a processor of its own, and the tally is printed.
    pub(super) compared: bool,
}

impl Work {
    /// As arguments of the hidden subcommand.
    pub(super) fn arguments(&self) -> [String; 4] {
        [
            self.layout.word().to_owned(),
            self.threads.to_string(),
            self.length.as_millis().to_string(),
            if self.compared { TALLY } else { SILENT }.to_owned(),
        ]
    }

    /// From arguments of the hidden subcommand.
    pub(super) fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let [layout, threads, millis, prints] = arguments else {
            bail!(
                "the workload takes a layout, a number of threads, milliseconds, {TALLY} or {SILENT}"
            );
        };
        let layout = match layout.as_str() {
            "packed" => Layout::Packed,
            "padded" => Layout::Padded,
            other => bail!("no layout is called {other} (packed or padded)"),
        };
        let threads: usize = threads.parse().context("not a number of threads")?;
        if !(1..=MOST_THREADS).contains(&threads) {
            bail!("{threads} threads are not from 1 to {MOST_THREADS}");
        }
        let millis: u32 = millis.parse().context("not a number of milliseconds")?;
        Ok(Self {
            layout,
            threads,
            length: Duration::from_millis(u64::from(millis)),
            compared: prints == TALLY,
        })
    }
}

const TALLY: &str = "tally";
const SILENT: &str = "silent";

/// What the slices say in which every thread ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    /// Items collected.
    pub(super) items: u64,
    /// CPU time of all threads for them.
    pub(super) cpu: Duration,
    /// Slices in which every thread ran.
    pub(super) good: usize,
    /// All slices.
    pub(super) slices: usize,
}

impl Tally {
    /// As a line of text.
    pub(super) fn line(&self) -> String {
        let nanos = self.cpu.as_nanos();
        format!("{} {nanos} {} {}", self.items, self.good, self.slices)
    }

    /// From such a line.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut numbers = line
            .split_ascii_whitespace()
            .map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let tally = Self {
            items: next()?,
            cpu: Duration::from_nanos(next()?),
            good: usize::try_from(next()?).ok()?,
            slices: usize::try_from(next()?).ok()?,
        };
        numbers.next().is_none().then_some(tally)
    }
}

/// Short enough that some fit between two preemptions on a busy machine.
const SLICE: Duration = Duration::from_millis(1);
/// Items between two looks at the clock.
const BATCH: usize = 256;

/// One thread's part of one slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    items: u64,
    wall: Duration,
    cpu: Duration,
    preemptions: i64,
}

impl Slice {
    fn ran_all_the_time(&self) -> bool {
        self.preemptions == 0
            && self.wall.as_secs_f64() >= 0.9 * SLICE.as_secs_f64()
            && self.cpu.as_secs_f64() >= 0.97 * self.wall.as_secs_f64()
    }
}

/// Runs it, in this process.
pub(super) fn perform(work: &Work) -> anyhow::Result<Tally> {
    let items = items();
    let start = Instant::now() + Duration::from_millis(2);
    let slices = usize::try_from(work.length.as_nanos() / SLICE.as_nanos())?.max(1);
    let collect = match work.layout {
        Layout::Packed => collect_packed,
        Layout::Padded => collect_padded,
    };
    // The scheduler may put two threads on one processor while others are busy: then nothing is fought over.
    let cpus = match work.compared {
        true => allowed_cpus(&SystemFiles::of_this_machine()),
        false => Vec::new(),
    };
    let threads: Vec<Vec<Slice>> = thread::scope(|scope| {
        let (items, cpus) = (&items, &cpus);
        let threads: Vec<_> = (0..work.threads)
            .map(|slot| {
                thread::Builder::new()
                    .name(format!("collector-{slot}"))
                    .spawn_scoped(scope, move || {
                        if let Some(&cpu) = cpus.get(slot) {
                            // Where it may not stay, it runs where it is put; the slices tell how.
                            let _ = pin(cpu);
                        }
                        collector(start, slices, || collect(slot, items))
                    })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| {
                let thread = thread.context("cannot start a thread")?;
                thread.join().ok().context("a thread panicked")
            })
            .collect::<anyhow::Result<_>>()
    })?;
    Ok(tally(&threads, slices))
}

fn tally(threads: &[Vec<Slice>], slices: usize) -> Tally {
    let mut tally = Tally {
        slices,
        ..Tally::default()
    };
    for number in 0..slices {
        let sides: Option<Vec<&Slice>> = threads.iter().map(|slices| slices.get(number)).collect();
        let Some(sides) = sides.filter(|sides| sides.iter().all(|side| side.ran_all_the_time()))
        else {
            continue;
        };
        tally.good += 1;
        tally.items += sides.iter().map(|side| side.items).sum::<u64>();
        tally.cpu += sides.iter().map(|side| side.cpu).sum::<Duration>();
    }
    tally
}

/// One thread: calls `collect`, slice by slice.
fn collector(start: Instant, slices: usize, collect: impl Fn()) -> Vec<Slice> {
    let mut done = Vec::with_capacity(slices);
    while Instant::now() < start {
        std::hint::spin_loop();
    }
    let mut end = start;
    for _ in 0..slices {
        end += SLICE;
        let (began, cpu, preempted) = (Instant::now(), cpu_time(), preemptions());
        let mut items = 0;
        while Instant::now() < end {
            collect();
            items += BATCH as u64;
        }
        done.push(Slice {
            items,
            wall: began.elapsed(),
            cpu: cpu_time().saturating_sub(cpu),
            preemptions: preemptions() - preempted,
        });
    }
    done
}

/// Counts the odd items, beside the other threads' counters.
#[inline(never)]
fn collect_packed(slot: usize, items: &[u32]) {
    for item in items {
        COUNTS.hits[slot].fetch_add(u64::from(item & 1), Ordering::Relaxed);
    }
}

/// Counts the odd items, on a line of its own.
#[inline(never)]
fn collect_padded(slot: usize, items: &[u32]) {
    for item in items {
        PADDED_COUNTS[slot]
            .hits
            .fetch_add(u64::from(item & 1), Ordering::Relaxed);
    }
}

/// The input: the same in every run.
fn items() -> Vec<u32> {
    let mut state = 0x9e37_79b9_u32;
    std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    })
    .take(BATCH)
    .collect()
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

fn preemptions() -> i64 {
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |usage| usage.involuntary_context_switches())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(items: u64, preemptions: i64) -> Slice {
        Slice {
            items,
            wall: SLICE,
            cpu: SLICE,
            preemptions,
        }
    }

    #[test]
    fn a_slice_counts_only_if_every_thread_ran_through_it() {
        let late = Slice {
            wall: SLICE / 2,
            ..slice(7, 0)
        };
        let waiting = Slice {
            cpu: SLICE / 2,
            ..slice(7, 0)
        };
        let a = vec![
            slice(10, 0),
            slice(10, 0),
            slice(10, 1),
            slice(10, 0),
            slice(10, 0),
        ];
        let b = vec![slice(20, 0), late, slice(20, 0), waiting];
        let expected = Tally {
            items: 30,
            cpu: SLICE * 2,
            good: 1,
            slices: 5,
        };
        assert_eq!(tally(&[a, b], 5), expected);
    }

    #[test]
    fn work_and_tally_survive_being_text() {
        for layout in [Layout::Packed, Layout::Padded] {
            let work = Work {
                layout,
                threads: 3,
                length: Duration::from_millis(250),
                compared: layout == Layout::Packed,
            };
            assert_eq!(Work::parse(&work.arguments()).unwrap(), work);
        }
        let tally = Tally {
            items: 1,
            cpu: Duration::from_nanos(2),
            good: 3,
            slices: 4,
        };
        assert_eq!(Tally::parse(&tally.line()), Some(tally));
        for bad in ["", "1 2 3", "1 2 3 4 5", "1 2 3 x"] {
            assert_eq!(Tally::parse(bad), None, "{bad:?}");
        }
        for bad in [
            &["packed", "9", "1", "tally"][..],
            &["packed", "0", "1", "tally"],
            &["x", "1", "1", "tally"],
            &["packed", "1", "1"],
        ] {
            let words: Vec<String> = bad.iter().map(|&word| word.to_owned()).collect();
            assert!(Work::parse(&words).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn every_odd_item_of_every_thread_is_counted_in_both_layouts() {
        let odd = items().iter().filter(|item| *item & 1 == 1).count() as u64;
        let before = |layout| match layout {
            Layout::Packed => COUNTS.hits[7].load(Ordering::Relaxed),
            Layout::Padded => PADDED_COUNTS[7].hits.load(Ordering::Relaxed),
        };
        let (packed, padded) = (before(Layout::Packed), before(Layout::Padded));
        collect_packed(7, &items());
        collect_padded(7, &items());
        assert_eq!(before(Layout::Packed) - packed, odd);
        assert_eq!(before(Layout::Padded) - padded, odd);
    }

    #[test]
    fn it_runs() {
        let work = Work {
            layout: Layout::Packed,
            threads: 2,
            length: SLICE * 2,
            compared: false,
        };
        assert_eq!(perform(&work).unwrap().slices, 2);
    }
}
