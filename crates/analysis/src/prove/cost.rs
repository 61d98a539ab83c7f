//! From windows to what each thread of each group would gain.

use hitm_model::{
    Avma, Baseline, Cause, CoreDistance, GroupOutcome, Interval, LineSize, Nanos, Placement,
    Register, Svma, ThreadId, Window, WindowCounts, Word,
};

use super::causes::causes;
use super::footprint::{Footprint, Footprints};
use super::registers::{Candidate, Place, ThreadWindow, candidates};
use super::steps::{Assessment, LEAST_WINDOWS, Look, assess};
use super::waiting::{Waits, of_thread};
use super::windows::{ProvenGroup, WindowSamples, Windows, counts};
use super::words;
use crate::binaries::ModuleId;
use crate::gather::Recording;
use crate::samples::Decoder;
use crate::world::World;

/// Measures that are independent of each other agree if they differ by no more than this factor, or their intervals
/// overlap.
const AGREE_WITHIN: f64 = 1.7;

/// From this ratio on it is worth asking for causes.
const HELD_UP: f64 = 1.03;

/// A baseline this near to 1 is the noise of measuring it.
const NO_BASELINE: f64 = 0.03;

/// What the windows of a group showed, with places in the code not named yet.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(super) threads: Vec<ThreadMeasured>,
    pub(super) distance: CoreDistance,
    pub(super) cpus: Vec<u32>,
    pub(super) window: Nanos,
    pub(super) windows: WindowCounts,
    pub(super) outcome: GroupOutcome,
    pub(super) baseline: Option<Baseline>,
    pub(super) lost: Nanos,
    pub(super) causes: Vec<Cause>,
}

/// A thread of it; `None`: all of them, by a word that counts for all.
#[derive(Clone, Debug)]
pub(super) struct ThreadMeasured {
    pub(super) thread: Option<ThreadId>,
    pub(super) cost: Result<Costs, WhyNot>,
}

impl ThreadMeasured {
    /// Whether something certainly holds it up.
    fn is_held_up(&self) -> bool {
        let cost = self.cost.as_ref();
        cost.is_ok_and(|cost| cost.ratio.low > HELD_UP && cost.ratio.ratio > cost.floor)
    }
}

/// A cost and what it was measured by.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    pub(super) ratio: Interval,
    pub(super) floor: f64,
    pub(super) measures: Vec<By>,
}

/// A measure.
#[derive(Clone, Debug)]
pub(super) struct By {
    pub(super) what: What,
    pub(super) assessment: Assessment,
    /// See [`hitm_model::Measure::coverage`].
    pub(super) coverage: f64,
    pub(super) named: Option<String>,
}

/// What was looked at.
#[derive(Clone, Debug)]
pub(super) enum What {
    Register {
        register: Register,
        at: Option<(ModuleId, Svma)>,
        throughout: bool,
    },
    Word(Word),
}

/// Why there is no cost.
#[derive(Clone, Debug)]
pub(super) enum WhyNot {
    Waits { thread: ThreadId, waits: Waits },
    NoMeasure,
    NamedUnfit { name: String, why: &'static str },
    Disagree { low: f64, high: f64 },
    TooFewWindows { dropped: u32, of: u32 },
    Ended { done: u32, planned: u32 },
    Refused(String),
}

/// Goes through all groups of a recording.
pub(crate) fn measure(
    recording: &dyn Recording,
    windows: &Windows,
    decoder: &mut Decoder<'_, '_>,
    world: &World,
    line_size: LineSize,
) -> Vec<Measured> {
    if windows.is_empty() {
        return Vec::new();
    }
    let samples = windows.samples(recording);
    let groups = windows.groups.iter().enumerate();
    groups
        .map(|(number, group)| {
            let of = Examined::new(number, group, &samples, world);
            of.measured(decoder, line_size)
        })
        .collect()
}

/// A group under examination: its windows that count, and the samples in them.
struct Examined<'a> {
    number: usize,
    proven: &'a ProvenGroup,
    /// With their places in the group.
    kept: Vec<(usize, &'a Window)>,
    samples: &'a WindowSamples,
    world: &'a World,
    period: Nanos,
}

impl<'a> Examined<'a> {
    fn new(
        number: usize,
        proven: &'a ProvenGroup,
        samples: &'a WindowSamples,
        world: &'a World,
    ) -> Self {
        let windows = proven.windows.iter().enumerate();
        let period = world.sampler.as_ref().map(|sampler| sampler.period);
        Self {
            number,
            proven,
            kept: windows.filter(|(_, window)| counts(window)).collect(),
            samples,
            world,
            period: period.unwrap_or_default(),
        }
    }

    fn measured(&self, decoder: &mut Decoder<'_, '_>, line_size: LineSize) -> Measured {
        let group = &self.proven.group;
        let counts = self.counts();
        let outcome = self.proven.end.as_ref().map(|end| end.outcome.clone());
        let outcome = outcome.unwrap_or(GroupOutcome::Interrupted);
        let footprints = self.footprints(decoder);
        let waits = self.waits(&footprints, decoder);
        let nothing = waits.or_else(|| self.no_cost_at_all(&outcome, counts));
        let mut threads = Vec::new();
        for thread in &group.threads {
            let cost = match &nothing {
                Some(why) => Err(why.clone()),
                None => self.cost_of(*thread, decoder),
            };
            threads.push(ThreadMeasured {
                thread: Some(*thread),
                cost,
            });
        }
        if nothing.is_none() {
            threads.extend(self.cost_of_all());
        }
        let found_causes = if threads.iter().any(ThreadMeasured::is_held_up) {
            let placements = self.placements();
            causes(
                &footprints,
                &placements,
                self.period,
                line_size,
                decoder,
                self.world,
            )
        } else {
            Vec::new()
        };
        Measured {
            threads,
            distance: group.distance,
            cpus: group.cpus.clone(),
            window: group.length,
            windows: counts,
            outcome,
            baseline: group.baseline,
            lost: self
                .proven
                .end
                .as_ref()
                .map_or_else(|| lost(&self.proven.windows), |end| end.lost),
            causes: found_causes,
        }
    }

    fn counts(&self) -> WindowCounts {
        let kept = |placement| {
            let kept = self.kept.iter();
            kept.filter(|(_, window)| window.placement == placement)
                .count() as u32
        };
        WindowCounts {
            planned: self.proven.group.planned,
            apart: kept(Placement::Apart),
            together: kept(Placement::Together),
            dropped: (self.proven.windows.len() - self.kept.len()) as u32,
        }
    }

    /// How one of the threads waits for another. Windows that do not count show it, too: threads that give their
    /// processor up all the time do not use all of it.
    fn waits(&self, footprints: &Footprints, decoder: &mut Decoder<'_, '_>) -> Option<WhyNot> {
        let windows: Vec<&Window> = self.proven.windows.iter().collect();
        let mut threads = self.proven.group.threads.iter().enumerate();
        threads.find_map(|(place, thread)| {
            let waits = of_thread(place, &windows, footprints, decoder, self.world)?;
            Some(WhyNot::Waits {
                thread: *thread,
                waits,
            })
        })
    }

    /// What rules a cost of any thread out.
    fn no_cost_at_all(&self, outcome: &GroupOutcome, counts: WindowCounts) -> Option<WhyNot> {
        let kept = counts.apart.min(counts.together);
        if kept as usize >= LEAST_WINDOWS {
            return None;
        }
        Some(match outcome {
            GroupOutcome::Refused(why) => WhyNot::Refused(why.clone()),
            GroupOutcome::Complete => WhyNot::TooFewWindows {
                dropped: counts.dropped,
                of: self.proven.windows.len() as u32,
            },
            _ => WhyNot::Ended {
                done: self.proven.windows.len() as u32,
                planned: 2 * counts.planned,
            },
        })
    }

    /// Of all windows.
    fn placements(&self) -> Vec<Placement> {
        let windows = self.proven.windows.iter();
        windows.map(|window| window.placement).collect()
    }

    fn samples_of(&self, thread: ThreadId) -> Vec<ThreadWindow<'a>> {
        let kept = self.kept.iter();
        kept.map(|(place, window)| ThreadWindow {
            placement: window.placement,
            samples: self.samples.of(self.number, *place, thread),
        })
        .collect()
    }

    /// What was touched in all windows, whether or not they count.
    fn footprints(&self, decoder: &mut Decoder<'_, '_>) -> Footprints {
        let threads = self.proven.group.threads.iter();
        let of = |thread: &ThreadId| {
            let windows = self.proven.windows.iter().enumerate();
            let windows: Vec<_> = windows
                .map(|(place, window)| {
                    let samples = self.samples.of(self.number, place, *thread);
                    (window.placement, samples)
                })
                .collect();
            (*thread, Footprint::of(&windows, decoder, self.world))
        };
        Footprints {
            threads: threads.map(of).collect(),
        }
    }

    fn cost_of(&self, thread: ThreadId, decoder: &mut Decoder<'_, '_>) -> Result<Costs, WhyNot> {
        let registers = self.registers(thread, decoder)?;
        let words = self.words(Some(thread))?;
        if let (None, Some(code)) = (&registers, self.proven.group.code.first()) {
            return Err(WhyNot::NamedUnfit {
                name: code.name.clone(),
                why: "no register moves steadily in it for most of the thread's time",
            });
        }
        // What the user named comes first, and is believed.
        let (named, others): (Vec<By>, Vec<By>) =
            words.into_iter().partition(|by| by.named.is_some());
        let measures: Vec<By> = if named.is_empty() && self.proven.group.code.is_empty() {
            registers.into_iter().chain(others).collect()
        } else {
            named.into_iter().chain(registers).collect()
        };
        self.agreed(measures)
    }

    /// By the words that count for the whole group.
    fn cost_of_all(&self) -> Option<ThreadMeasured> {
        let cost = match self.words(None) {
            Ok(words) if words.is_empty() => return None,
            Ok(words) => self.agreed(words),
            Err(why) => Err(why),
        };
        Some(ThreadMeasured { thread: None, cost })
    }

    /// The words that tell how far a thread got. One that the user named and that does not is an answer, too.
    fn words(&self, thread: Option<ThreadId>) -> Result<Vec<By>, WhyNot> {
        let windows: Vec<&Window> = self.kept.iter().map(|(_, window)| *window).collect();
        let mut found = Vec::new();
        for (number, word) in self.proven.group.words.iter().enumerate() {
            if word.thread != thread {
                continue;
            }
            match (
                assess(&words::steps(&windows, word, number), Look::Read),
                &word.name,
            ) {
                (Ok(assessment), named) => found.push(By {
                    what: What::Word(word.clone()),
                    assessment,
                    coverage: assessment.steady_part,
                    named: named.clone(),
                }),
                (Err(unfit), Some(name)) => {
                    return Err(WhyNot::NamedUnfit {
                        name: name.clone(),
                        why: unfit.clause(),
                    });
                }
                (Err(_), None) => {}
            }
        }
        Ok(found)
    }

    /// The best register, if those that are about as good do not say something else.
    fn registers(
        &self,
        thread: ThreadId,
        decoder: &mut Decoder<'_, '_>,
    ) -> Result<Option<By>, WhyNot> {
        let windows = self.samples_of(thread);
        let functions: rustc_hash::FxHashMap<Avma, Option<Avma>> = windows
            .iter()
            .flat_map(|window| window.samples)
            .map(|sample| sample.registers.ip)
            .map(|ip| (ip, decoder.function_of(self.world, thread, ip)))
            .collect();
        let code = &self.proven.group.code;
        let wanted = |ip: Avma| {
            code.is_empty()
                || code
                    .iter()
                    .any(|code| code.ranges.iter().any(|range| range.contains(ip)))
        };
        let function_of = |ip: Avma| functions.get(&ip).copied().flatten();
        let found = candidates(&windows, self.period, &function_of, &wanted);
        let Some(best) = found.first() else {
            return Ok(None);
        };
        let against = found
            .iter()
            .find(|it| !agree(&it.assessment.ratio, &best.assessment.ratio));
        if let Some(other) = against {
            let (a, b) = (other.assessment.ratio.ratio, best.assessment.ratio.ratio);
            return Err(WhyNot::Disagree {
                low: a.min(b),
                high: a.max(b),
            });
        }
        Ok(Some(self.by_register(best, thread, decoder)))
    }

    fn by_register(
        &self,
        candidate: &Candidate,
        thread: ThreadId,
        decoder: &mut Decoder<'_, '_>,
    ) -> By {
        let code = &self.proven.group.code;
        let named = code.iter().find(|code| {
            let mut ranges = code.ranges.iter();
            ranges.any(|range| range.contains(candidate.at))
        });
        By {
            what: What::Register {
                register: candidate.register,
                at: decoder.place_of(self.world, thread, candidate.at),
                throughout: matches!(candidate.place, Place::Function(_)),
            },
            assessment: candidate.assessment,
            coverage: candidate.coverage,
            named: named.map(|code| code.name.clone()),
        }
    }

    /// One cost of all measures, if they agree.
    fn agreed(&self, measures: Vec<By>) -> Result<Costs, WhyNot> {
        let ratios = || measures.iter().map(|by| by.assessment.ratio);
        let n = measures.len();
        if n == 0 {
            return Err(WhyNot::NoMeasure);
        }
        let disagree = ratios().any(|a| ratios().any(|b| !agree(&a, &b)));
        let (low, high) = ratios().fold((f64::INFINITY, 0.0f64), |(low, high), it| {
            (low.min(it.ratio), high.max(it.ratio))
        });
        if disagree {
            return Err(WhyNot::Disagree { low, high });
        }
        let middle = (ratios().map(|it| it.ratio.ln()).sum::<f64>() / n as f64).exp();
        let all = Interval {
            ratio: middle,
            low: ratios().map(|it| it.low).fold(f64::INFINITY, f64::min),
            high: ratios().map(|it| it.high).fold(0.0, f64::max),
        };
        let floors = measures.iter().map(|by| by.assessment.floor);
        Ok(Costs {
            ratio: divided(all, self.proven.group.baseline),
            floor: floors.fold(1.0, f64::max),
            measures,
        })
    }
}

/// Whether two measures may be of one and the same ratio.
fn agree(a: &Interval, b: &Interval) -> bool {
    let overlap = a.low <= b.high && b.low <= a.high;
    overlap || (a.ratio / b.ratio).ln().abs() <= AGREE_WITHIN.ln()
}

/// A ratio without what placement alone does.
fn divided(ratio: Interval, baseline: Option<Baseline>) -> Interval {
    let near = |it: f64| (it - 1.0).abs() <= NO_BASELINE;
    match baseline {
        Some(Baseline { low, high }) if low > 0.0 && !(near(low) && near(high)) => Interval {
            ratio: ratio.ratio / (low * high).sqrt(),
            low: ratio.low / high,
            high: ratio.high / low,
        },
        _ => ratio,
    }
}

/// What the threads waited in windows together.
fn lost(windows: &[Window]) -> Nanos {
    let together = windows
        .iter()
        .filter(|window| window.placement == Placement::Together);
    let waited = together
        .flat_map(|window| &window.threads)
        .map(|thread| thread.waited.0);
    Nanos(waited.sum())
}
