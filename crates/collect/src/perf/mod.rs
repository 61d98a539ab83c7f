//! The sampler that asks the kernel: the software clock event of `perf_event_open`, user mode only.
//!
//! Inherited events can be mapped only per processor, so there is one sampling and one side ring for every processor,
//! and every thread's events on that processor write there.
//!
//! # Caveats
//! The clock interrupt strikes when the stalled instruction has retired, so a sample is mostly on the instruction
//! behind the one that waited. A thread that sleeps is not sampled, and neither is one that runs for less than a period
//! in its whole life: the clock of an inherited event starts anew.

mod attach;
mod attr;
mod record;
mod ring;
mod stream;
mod sys;

use std::{
    io,
    os::fd::{AsFd, OwnedFd, RawFd},
};

use hitm_model::{Nanos, Pid, SamplerKind, Tid};
use rustc_hash::{FxHashMap, FxHashSet};

use self::stream::{Place, Stream};
pub(crate) use self::{attr::Start, sys::Target};
use crate::{CollectError, RawEvent, clock, machine, sampler::Sampler};

/// Something older than this has arrived in its ring.
const SLACK: Nanos = Nanos::from_millis(5);

/// All rings together, in bytes.
const ALL_RINGS: usize = 32 << 20;

/// One processor's sampling ring at most: with its control page just what `perf_event_mlock_kb` allows by default.
const SAMPLE_RING: usize = 512 << 10;

/// The smallest ring worth having.
const LEAST_RING: usize = 4096;

/// Wake the recorder when so many bytes are in a ring.
const WAKE_AT: u32 = 32 << 10;

/// Samples with `perf_event_open`.
#[derive(Debug)]
pub(crate) struct PerfSampler {
    period: Nanos,
    streams: Vec<Stream>,
    /// Events that write to a ring of `streams`.
    redirected: Vec<OwnedFd>,
    /// Threads that may have both events of their own and inherited ones, with the numbers of their own.
    own_events: OwnEvents,
}

type OwnEvents = FxHashMap<Tid, FxHashSet<u64>>;

/// Whether the thread has events of its own and this is none of them.
fn is_inherited(own_events: &OwnEvents, tid: Tid, id: u64) -> bool {
    own_events.get(&tid).is_some_and(|own| !own.contains(&id))
}

impl PerfSampler {
    /// A sampler that strikes once in `period` of a thread's running time.
    pub(crate) fn new(period: Nanos) -> Self {
        Self {
            period,
            streams: Vec::new(),
            redirected: Vec::new(),
            own_events: FxHashMap::default(),
        }
    }

    /// Whether the kernel lets this process sample itself.
    pub(crate) fn probe() -> Result<(), CollectError> {
        let attr = attr::sampling(Nanos::from_millis(1), Start::Held, WAKE_AT);
        match sys::open(&attr, Target::ThisThread) {
            Ok(_event) => Ok(()),
            Err(error) => Err(sys::refusal(error, None)),
        }
    }

    /// Opens the events of a thread on every processor, with rings of their own.
    fn open_rings(
        &mut self,
        tid: i32,
        start: Start,
        attached: Option<Pid>,
    ) -> Result<(), CollectError> {
        let cpus = online_cpus();
        let mut size = (ALL_RINGS / cpus.len().max(1) / 2).clamp(LEAST_RING, SAMPLE_RING);
        size = 1 << size.ilog2();
        loop {
            match self.try_open_rings(tid, &cpus, start, size, attached) {
                Err(CollectError::Perf { source, .. })
                    if size > LEAST_RING
                        && matches!(source.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) =>
                {
                    size /= 2;
                }
                result => return result,
            }
        }
    }

    fn try_open_rings(
        &mut self,
        tid: i32,
        cpus: &[i32],
        start: Start,
        size: usize,
        attached: Option<Pid>,
    ) -> Result<(), CollectError> {
        self.streams.clear();
        let side_size = (size / 2).max(LEAST_RING);
        // Births and mappings of a new program come in before it is sampled.
        let side_start = if start == Start::OnExec {
            Start::Now
        } else {
            start
        };
        let side = attr::side(side_start, WAKE_AT);
        let sampling = attr::sampling(self.period, start, WAKE_AT);
        // Side rings come first: of two records with one time, that of the side goes out first.
        for (attr, size, place) in [
            (side, side_size, Place::Side as fn(i32) -> Place),
            (sampling, size, Place::Sampling),
        ] {
            for &cpu in cpus {
                let event = match sys::open(&attr, Target::OnCpu { tid, cpu }) {
                    Ok(event) => event,
                    // The processor went offline in between.
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => continue,
                    Err(error) => return Err(sys::refusal(error, attached)),
                };
                let stream =
                    Stream::map(place(cpu), event, size).map_err(|source| CollectError::Perf {
                        doing: "mapping a ring",
                        source,
                    })?;
                self.streams.push(stream);
            }
        }
        Ok(())
    }

    fn drain(&mut self, until: Nanos, sink: &mut dyn FnMut(RawEvent)) {
        let own_events = &mut self.own_events;
        stream::merge(&mut self.streams, until, &mut |id, event| {
            if !own_events.is_empty() {
                match &event {
                    RawEvent::Sample(sample) if is_inherited(own_events, sample.tid, id) => return,
                    RawEvent::Ended { tid, .. } => {
                        own_events.remove(tid);
                    }
                    _ => {}
                }
            }
            sink(event);
        });
    }
}

impl Sampler for PerfSampler {
    fn kind(&self) -> SamplerKind {
        SamplerKind::Perf
    }

    fn period(&self) -> Nanos {
        self.period
    }

    fn arm(&mut self, child: Pid) -> Result<(), CollectError> {
        self.open_rings(child.0.cast_signed(), Start::OnExec, None)
    }

    fn wake_fds(&self) -> Vec<RawFd> {
        self.streams.iter().map(Stream::wake_fd).collect()
    }

    fn poll(&mut self, sink: &mut dyn FnMut(RawEvent)) -> Result<(), CollectError> {
        let until = Nanos(clock::now().0.saturating_sub(SLACK.0));
        self.drain(until, sink);
        Ok(())
    }

    fn stop(&mut self) {
        let rings = self.streams.iter().map(Stream::event);
        for event in rings.chain(&self.redirected) {
            // An event that cannot be stopped ends when its descriptor is closed.
            let _ = sys::disable(event.as_fd());
        }
    }

    fn finish(&mut self, sink: &mut dyn FnMut(RawEvent)) -> Result<(), CollectError> {
        self.drain(Nanos(u64::MAX), sink);
        Ok(())
    }
}

/// One event on the calling thread with a ring, held until told otherwise; for measuring what a sample costs.
pub(crate) fn hold_on_this_thread(period: Nanos) -> io::Result<HeldEvent> {
    let attr = attr::sampling(period, Start::Held, u32::MAX);
    let event = sys::open(&attr, Target::ThisThread)?;
    Ok(HeldEvent(Stream::map(
        Place::Sampling(-1),
        event,
        64 << 10,
    )?))
}

/// An event that counts a thread's processor time from now on: reading its descriptor gives 64 bits of nanoseconds.
pub(crate) fn task_clock(tid: Tid) -> io::Result<OwnedFd> {
    sys::open(&attr::task_clock(), Target::Thread(tid.0.cast_signed()))
}

/// See [`hold_on_this_thread`].
#[derive(Debug)]
pub(crate) struct HeldEvent(Stream);

impl HeldEvent {
    pub(crate) fn enable(&self) -> io::Result<()> {
        sys::enable(self.0.event().as_fd())
    }

    pub(crate) fn disable(&self) -> io::Result<()> {
        sys::disable(self.0.event().as_fd())
    }

    /// Samples since the last call.
    pub(crate) fn n_samples(&mut self) -> u64 {
        let mut samples = 0;
        stream::merge(
            std::slice::from_mut(&mut self.0),
            Nanos(u64::MAX),
            &mut |_, event| {
                samples += u64::from(matches!(event, RawEvent::Sample(_)));
            },
        );
        samples
    }
}

/// Processors that a thread may be run on. Its own mask does not matter: it may change.
fn online_cpus() -> Vec<i32> {
    let text = machine::SystemFiles::of_this_machine().text("sys/devices/system/cpu/online");
    let cpus = text
        .as_deref()
        .and_then(|text| machine::parse_cpu_list(text.trim()));
    cpus.map_or_else(
        || vec![0],
        |cpus| cpus.into_iter().map(|cpu| cpu.0.cast_signed()).collect(),
    )
}
