//! Measured costs with names: of functions, threads and fields.

use hitm_model::{
    CoLocated, Cost, Finding, Measure, NoCost, Progress, Svma, ThreadCost, ThreadId, Tid, Waiting,
    Word,
};

use super::cost::{By, Costs, Measured, ThreadMeasured, What, WhyNot};
use super::waiting::Waits;
use crate::binaries::DebugInfos;
use crate::world::World;

/// Gives a group's result its names. Words are called what the findings call them.
pub(crate) fn describe(
    measured: &Measured,
    debug: &DebugInfos<'_, '_>,
    world: &World,
    findings: &[Finding],
) -> CoLocated {
    let names = Names {
        debug,
        world,
        findings,
    };
    let threads = measured.threads.iter();
    CoLocated {
        threads: threads.map(|thread| names.thread(thread)).collect(),
        distance: measured.distance,
        cpus: measured.cpus.clone(),
        window: measured.window,
        windows: measured.windows,
        outcome: measured.outcome.clone(),
        baseline: measured.baseline,
        lost: measured.lost,
        split: None,
        part: None,
        causes: measured.causes.clone(),
    }
}

struct Names<'a, 'm, 'd> {
    debug: &'a DebugInfos<'m, 'd>,
    world: &'a World,
    findings: &'a [Finding],
}

impl Names<'_, '_, '_> {
    fn thread(&self, measured: &ThreadMeasured) -> ThreadCost {
        let cost = match &measured.cost {
            Ok(costs) => Ok(self.costs(costs)),
            Err(why) => Err(self.why_not(why)),
        };
        ThreadCost {
            name: measured
                .thread
                .map_or_else(|| "all threads".to_owned(), |thread| self.name_of(thread)),
            tid: measured.thread.and_then(|thread| self.tid_of(thread)),
            cost,
        }
    }

    fn name_of(&self, thread: ThreadId) -> String {
        let thread = self.world.threads.get(&thread);
        thread.map_or_else(String::new, |thread| thread.name.clone())
    }

    fn tid_of(&self, thread: ThreadId) -> Option<Tid> {
        self.world.threads.get(&thread).map(|thread| thread.tid)
    }

    fn costs(&self, costs: &Costs) -> Cost {
        Cost {
            ratio: costs.ratio,
            floor: costs.floor,
            measures: costs.measures.iter().map(|by| self.measure(by)).collect(),
        }
    }

    fn measure(&self, by: &By) -> Measure {
        let progress = match &by.what {
            What::Register {
                register,
                at,
                throughout,
            } => Progress::Register {
                register: *register,
                binary: at.map_or_else(String::new, |(module, _)| {
                    self.debug.module(module).name().to_owned()
                }),
                address: at.map_or(Svma(0), |(_, svma)| svma),
                throughout: *throughout,
                frames: at.map_or_else(Vec::new, |(module, at)| self.debug.frames(module, at)),
            },
            What::Word(word) => Progress::Word {
                name: self.word(word),
                address: word.address,
            },
        };
        Measure {
            progress,
            ratio: by.assessment.ratio,
            per_second_apart: by.assessment.speed_apart * 1e9,
            coverage: by.coverage,
            dispersion: by.assessment.dispersion,
            steps: by.assessment.steps,
            steady: by.assessment.steady,
            named: by.named.clone(),
        }
    }

    fn word(&self, word: &Word) -> String {
        if let Some(name) = &word.name {
            return name.clone();
        }
        let here = self.findings.iter().find_map(|finding| {
            let mut participants = finding.participants.iter();
            participants.find(|it| {
                let line = finding.lines.get(it.line);
                line.is_some_and(|line| {
                    line.address.0.wrapping_add(u64::from(it.range.start)) == word.address
                })
            })
        });
        here.map_or_else(|| word.address.to_string(), |it| it.field_path.clone())
    }

    fn why_not(&self, why: &WhyNot) -> NoCost {
        match why {
            WhyNot::Waits { thread, waits } => {
                let thread = self.name_of(*thread);
                NoCost::TheyWait(match waits {
                    Waits::Spins { share, at } => Waiting::Spins {
                        thread,
                        share: *share,
                        frames: self.debug.frames(at.0, at.1),
                    },
                    Waits::Sleeps { share, per_second } => Waiting::Sleeps {
                        thread,
                        share: *share,
                        switches_per_second: *per_second,
                    },
                    Waits::HandsOver { per_second } => Waiting::HandsOver {
                        thread,
                        switches_per_second: *per_second,
                    },
                })
            }
            WhyNot::NoMeasure => NoCost::NoMeasure,
            WhyNot::NamedUnfit { name, why } => NoCost::NamedUnfit {
                name: name.clone(),
                why: (*why).into(),
            },
            WhyNot::Disagree { low, high } => NoCost::MeasuresDisagree {
                low: *low,
                high: *high,
            },
            WhyNot::TooFewWindows { dropped, of } => NoCost::TooFewWindows {
                dropped: *dropped,
                of: *of,
            },
            WhyNot::Ended { done, planned } => NoCost::Ended {
                done: *done,
                planned: *planned,
            },
            WhyNot::Refused(why) => NoCost::Refused(why.clone()),
        }
    }
}
