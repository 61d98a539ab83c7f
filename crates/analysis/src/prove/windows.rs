//! The windows of a recording, and which of them count.

use hitm_model::{Event, Group, GroupEnd, Nanos, Placement, Sample, ThreadId, Window};
use rustc_hash::FxHashMap;

use crate::gather::Recording;

/// Before a window begins its threads have been moved already, and some time after it they are moved back.
const MARGIN: Nanos = Nanos::from_millis(100);

/// Of a window apart, a thread may wait for its processor in this part of the time at most.
const MOST_WAITING: f64 = 0.1;

/// Of a window together, others may have this part of the processor's time at most.
const MOST_FOREIGN: f64 = 0.12;

/// The hypervisor may have this part of the processors' time at most. The kernel counts it in hundredths of a second, so
/// that one of them in a short window is allowed.
const MOST_STOLEN: f64 = 0.1;
const STOLEN_GRAIN: Nanos = Nanos::from_millis(10);

/// The windows of a recording, by group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    pub(super) groups: Vec<ProvenGroup>,
    /// When threads were where they would not be by themselves.
    stretches: Vec<(Nanos, Nanos)>,
}

/// A group and what was done with it.
#[derive(Clone, Debug)]
pub(super) struct ProvenGroup {
    pub(super) group: Group,
    pub(super) windows: Vec<Window>,
    pub(super) end: Option<GroupEnd>,
}

impl Windows {
    /// Reads a recording through.
    pub(crate) fn of(recording: &dyn Recording) -> Self {
        let mut found = Self::default();
        for event in recording.events() {
            match event {
                Event::Group(group) => found.groups.push(ProvenGroup {
                    group,
                    windows: Vec::new(),
                    end: None,
                }),
                Event::Window(window) => {
                    if let Some(of) = found.numbered(window.group) {
                        of.windows.push(window);
                    }
                }
                Event::GroupEnded(end) => {
                    if let Some(of) = found.numbered(end.number) {
                        of.end = Some(end);
                    }
                }
                _ => {}
            }
        }
        found.stretches = found
            .groups
            .iter()
            .filter_map(ProvenGroup::stretch)
            .collect();
        found
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether threads were being moved then: samples of such times show what we did, not what the program does.
    pub(crate) fn contain(&self, at: Nanos) -> bool {
        let mut stretches = self.stretches.iter();
        stretches.any(|&(start, end)| start <= at && at <= end)
    }

    /// All samples in windows: by group, window and thread, in order of time.
    pub(super) fn samples(&self, recording: &dyn Recording) -> WindowSamples {
        let mut samples = WindowSamples::default();
        for event in recording.events() {
            let Event::Sample(sample) = event else {
                continue;
            };
            if !self.contain(sample.at) {
                continue;
            }
            for (g, group) in self.groups.iter().enumerate() {
                let inside = group
                    .windows
                    .iter()
                    .position(|it| it.start <= sample.at && sample.at <= it.end);
                if let Some(w) = inside
                    && group.group.threads.contains(&sample.thread)
                {
                    let list = samples.0.entry((g, w, sample.thread)).or_default();
                    list.push(sample);
                }
            }
        }
        for list in samples.0.values_mut() {
            list.sort_by_key(|sample| sample.at);
        }
        samples
    }

    fn numbered(&mut self, number: u32) -> Option<&mut ProvenGroup> {
        let mut groups = self.groups.iter_mut().rev();
        groups.find(|it| it.group.number == number)
    }
}

impl ProvenGroup {
    fn stretch(&self) -> Option<(Nanos, Nanos)> {
        let start = self.windows.iter().map(|window| window.start).min()?;
        let end = self.windows.iter().map(|window| window.end).max()?;
        Some((Nanos(start.0.saturating_sub(MARGIN.0)), end.plus(MARGIN)))
    }
}

/// See [`Windows::samples`].
#[derive(Debug, Default)]
pub(super) struct WindowSamples(FxHashMap<(usize, usize, ThreadId), Vec<Sample>>);

impl WindowSamples {
    pub(super) fn of(&self, group: usize, window: usize, thread: ThreadId) -> &[Sample] {
        let list = self.0.get(&(group, window, thread));
        list.map_or(&[], Vec::as_slice)
    }
}

/// Whether the threads had their processors in a window.
pub(super) fn counts(window: &Window) -> bool {
    let wall = window.end.since(window.start).0 as f64;
    if wall <= 0.0 {
        return false;
    }
    let mut cpus: Vec<u32> = window.threads.iter().map(|thread| thread.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let stolen = window.stolen.unwrap_or_default().since(STOLEN_GRAIN).0 as f64;
    if stolen > MOST_STOLEN * wall * cpus.len() as f64 {
        return false;
    }
    match window.placement {
        Placement::Apart => window
            .threads
            .iter()
            .all(|thread| thread.waited.0 as f64 <= MOST_WAITING * wall),
        Placement::Together => {
            let ran: u64 = window.threads.iter().map(|thread| thread.ran.0).sum();
            // While one of them could run, the processor was busy; what they did not use others did.
            let busy = window
                .threads
                .iter()
                .map(|it| it.ran.plus(it.waited).0)
                .max();
            let busy = busy.unwrap_or(0) as f64;
            busy - ran as f64 <= MOST_FOREIGN * wall
        }
    }
}
