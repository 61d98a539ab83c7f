//! Windows → cost, through the whole analysis. A case says what each thread's register, word and accounts do in the
//! windows of a made-up recording; the first thread's cost follows.

use hitm_analysis::{BinarySource, Options, analyse};
use hitm_binary::image::Image;
use hitm_model::{
    Avma, Baseline, CoLocated, CoreDistance, Event, Group, GroupEnd, GroupOutcome, Nanos, NoCost,
    Pid, Placement, Progress, Reading, Register, Registers, RunInfo, RunMode, Sample, SamplerInfo,
    SamplerKind, SpaceId, StopReason, ThreadId, Tid, Window, WindowThread, Word,
};

const PERIOD: Nanos = Nanos(1_000_000);
const LENGTH: Nanos = Nanos::from_millis(100);
const WORD: Avma = Avma(0x7000_0000);

/// There are no binaries.
struct Nothing;

impl BinarySource<'static> for Nothing {
    fn bytes(&self, _: &str) -> Result<&'static [u8], String> {
        Err("there are none".into())
    }

    fn debug_bytes(&self, _: &str, _: &Image<'static>) -> Option<&'static [u8]> {
        None
    }
}

/// What the first of two threads does; the second stands still.
#[derive(Clone)]
struct Case {
    /// What a register moves in a period, apart and together.
    register: Option<(f64, f64)>,
    /// The same of a second register at the same instruction.
    second: Option<(f64, f64)>,
    /// What a word moves in a millisecond of processor time, apart and together.
    word: Option<(f64, f64)>,
    named: Option<&'static str>,
    /// Windows of each placement.
    windows: u32,
    /// The part of a window apart in which the first thread waits for its processor, in every such window from this one on.
    waits_from: Option<(u32, f64)>,
    /// The part of each window apart in which it sleeps.
    asleep: f64,
    /// Changes of the thread in a window together.
    changes: u32,
    /// The part of each window together in which others have the processor.
    foreign: f64,
    baseline: Option<Baseline>,
    outcome: GroupOutcome,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            register: Some((1000.0, 3000.0)),
            second: None,
            word: None,
            named: None,
            windows: 6,
            waits_from: None,
            asleep: 0.0,
            changes: 20,
            foreign: 0.0,
            baseline: None,
            outcome: GroupOutcome::Complete,
        }
    }
}

fn part(of: Nanos, part: f64) -> Nanos {
    Nanos((of.0 as f64 * part) as u64)
}

impl Case {
    fn events(&self) -> Vec<Event> {
        let (space, threads) = (SpaceId(0), [ThreadId(0), ThreadId(1)]);
        let mut events = vec![
            Event::Run(RunInfo {
                mode: RunMode::Run,
                command: vec!["made-up".into()],
                pid: Pid(100),
                started_unix: Nanos(0),
                started: Nanos(0),
                recorder: "test".into(),
            }),
            Event::Sampler(SamplerInfo {
                kind: SamplerKind::Perf,
                period: PERIOD,
                cost: None,
                rate_given: false,
                fallback: None,
                shortfall: None,
            }),
            Event::SpaceBorn {
                space,
                pid: Pid(100),
                parent: None,
                at: Nanos(0),
            },
        ];
        for (thread, name) in threads.iter().zip(["first", "second"]) {
            events.push(Event::ThreadBorn {
                thread: *thread,
                space,
                tid: Tid(100 + thread.0),
                name: name.into(),
                at: Nanos(0),
            });
        }
        events.push(Event::Group(Group {
            number: 0,
            threads: threads.to_vec(),
            words: self
                .word
                .map(|_| Word {
                    thread: Some(threads[0]),
                    address: WORD,
                    size: 8,
                    name: self.named.map(str::to_owned),
                })
                .into_iter()
                .collect(),
            code: Vec::new(),
            cpus: vec![0, 1],
            distance: CoreDistance::SameCache,
            planned: 6,
            length: LENGTH,
            baseline: self.baseline,
        }));
        for number in 0..2 * self.windows {
            self.window(number, &mut events);
        }
        events.push(Event::GroupEnded(GroupEnd {
            number: 0,
            outcome: self.outcome.clone(),
            lost: Nanos(7),
        }));
        events.push(Event::Ended {
            at: Nanos::from_millis(60_000),
            reason: StopReason::ProgramEnded,
        });
        events
    }

    fn window(&self, number: u32, events: &mut Vec<Event>) {
        let start = Nanos::from_millis(2000 + 200 * u64::from(number));
        let placement = [Placement::Apart, Placement::Together][number as usize % 2];
        let apart = placement == Placement::Apart;
        let pick = |(a, t): (f64, f64)| if apart { a } else { t };
        let waiting = match self.waits_from {
            Some((from, part)) if apart && number / 2 >= from => part,
            _ => 0.0,
        };
        let running = match placement {
            Placement::Apart => 1.0 - waiting - self.asleep,
            Placement::Together => (1.0 - self.foreign) / 2.0,
        };
        let account = WindowThread {
            cpu: if apart { 0 } else { 1 },
            ran: part(LENGTH, running),
            waited: part(LENGTH, if apart { waiting } else { 1.0 - running }),
            voluntary: 0,
            involuntary: if apart { 1 } else { self.changes },
        };
        let other = WindowThread {
            cpu: 1,
            ran: part(LENGTH, if apart { 1.0 } else { running }),
            waited: part(LENGTH, if apart { 0.0 } else { 1.0 - running }),
            ..account
        };
        // Each of the samples is one period of the thread's own time later than the one before.
        let samples = (LENGTH.0 as f64 * running / PERIOD.0 as f64) as u64;
        for sample in 0..samples {
            let mut registers = Registers {
                ip: Avma(0x1000),
                ..Registers::default()
            };
            let moved = |speeds: Option<(f64, f64)>| {
                let speed = speeds.map_or(0.0, pick);
                (speed * (sample as f64 + 1000.0 * f64::from(number))) as u64
            };
            registers.set(Register::R12, moved(self.register));
            registers.set(Register::R13, moved(self.second));
            events.push(Event::Sample(Sample {
                thread: ThreadId(0),
                at: start.plus(Nanos((sample as f64 * PERIOD.0 as f64 / running) as u64)),
                cpu: 0,
                registers,
            }));
        }
        let words = self.word.map(|speeds| {
            let readings = (0..7u64).map(|nth| {
                let ran = part(account.ran, nth as f64 / 6.0);
                Reading {
                    at: start.plus(part(LENGTH, nth as f64 / 6.0)),
                    ran,
                    value: (pick(speeds) * ran.0 as f64 / 1e6) as u64,
                }
            });
            readings.collect()
        });
        events.push(Event::Window(Window {
            group: 0,
            placement,
            start,
            end: start.plus(LENGTH),
            threads: vec![account, other],
            words: words.into_iter().collect(),
            stolen: Some(Nanos(0)),
        }));
    }

    fn compared(&self) -> CoLocated {
        let report = analyse(&self.events(), &Nothing, &Options::default());
        assert!(report.findings.is_empty());
        let [group] = report.compared.as_slice() else {
            panic!("{} groups", report.compared.len());
        };
        group.clone()
    }
}

fn measures(group: &CoLocated) -> Vec<String> {
    let Ok(cost) = &group.threads[0].cost else {
        return Vec::new();
    };
    let measures = cost.measures.iter();
    measures
        .map(|measure| match &measure.progress {
            Progress::Register { register, .. } => register.to_string(),
            Progress::Word { name, .. } => name.clone(),
        })
        .collect()
}

#[track_caller]
fn check(case: &Case, expected: &str) {
    let group = case.compared();
    assert_eq!(group.threads[0].name, "first");
    assert_eq!(group.threads[0].tid, Some(Tid(100)));
    let found = match &group.threads[0].cost {
        Ok(cost) => format!(
            "{:.2} [{:.2}, {:.2}] by {}",
            cost.ratio.ratio,
            cost.ratio.low,
            cost.ratio.high,
            measures(&group).join(", ")
        ),
        Err(NoCost::MeasuresDisagree { low, high }) => format!("{low:.2} against {high:.2}"),
        Err(NoCost::TheyWait(waiting)) => format!("{waiting:?}"),
        Err(why) => format!("{why:?}"),
    };
    assert_eq!(found, expected);
    assert_eq!(group.lost, Nanos(7));
}

#[test]
fn a_register_gives_the_cost() {
    check(&Case::default(), "3.00 [3.00, 3.00] by r12");
    let free = Case {
        register: Some((1000.0, 1000.0)),
        ..Case::default()
    };
    check(&free, "1.00 [1.00, 1.00] by r12");
}

#[test]
fn measures_that_agree_are_shown_together_and_the_interval_spans_both() {
    let word = |word| Case {
        word: Some(word),
        ..Case::default()
    };
    check(
        &word((500.0, 2000.0)),
        "3.46 [3.00, 4.00] by r12, 0x70000000",
    );
    check(&word((500.0, 5000.0)), "3.00 against 10.00");
    // A word that does not move says nothing.
    check(&word((0.0, 0.0)), "3.00 [3.00, 3.00] by r12");
    let only = Case {
        register: None,
        ..word((500.0, 2000.0))
    };
    check(&only, "4.00 [4.00, 4.00] by 0x70000000");
    let named = Case {
        named: Some("done"),
        ..only
    };
    check(&named, "4.00 [4.00, 4.00] by done");
}

#[test]
fn registers_that_do_not_agree_give_no_number() {
    let two = |second| Case {
        second: Some(second),
        ..Case::default()
    };
    check(&two((10.0, 30.0)), "3.00 [3.00, 3.00] by r12");
    check(&two((10.0, 90.0)), "3.00 against 9.00");
}

#[test]
fn nothing_that_moves_is_no_measure() {
    let still = Case {
        register: None,
        ..Case::default()
    };
    check(&still, "NoMeasure");
}

#[test]
fn windows_without_their_processors_do_not_count() {
    let waiting = |from| Case {
        waits_from: Some((from, 0.2)),
        ..Case::default()
    };
    let group = waiting(4).compared();
    assert_eq!((group.windows.apart, group.windows.dropped), (4, 2));
    check(&waiting(4), "3.00 [3.00, 3.00] by r12");
    check(&waiting(2), "TooFewWindows { dropped: 4, of: 12 }");
    let foreign = Case {
        foreign: 0.3,
        ..Case::default()
    };
    check(&foreign, "TooFewWindows { dropped: 6, of: 12 }");
}

#[test]
fn threads_that_sleep_or_hand_over_wait() {
    let asleep = Case {
        asleep: 0.3,
        ..Case::default()
    };
    check(
        &asleep,
        "Sleeps { thread: \"first\", share: 0.3, switches_per_second: 0.0 }",
    );
    let handing = Case {
        changes: 900,
        ..Case::default()
    };
    check(
        &handing,
        "HandsOver { thread: \"first\", switches_per_second: 9000.0 }",
    );
}

#[test]
fn an_early_end_and_a_refusal_are_said() {
    let ended = Case {
        windows: 2,
        outcome: GroupOutcome::ThreadEnded,
        ..Case::default()
    };
    check(&ended, "Ended { done: 4, planned: 12 }");
    // Enough is enough, whoever ended.
    let late = Case {
        windows: 4,
        outcome: GroupOutcome::ThreadEnded,
        ..Case::default()
    };
    check(&late, "3.00 [3.00, 3.00] by r12");
    let refused = Case {
        windows: 0,
        outcome: GroupOutcome::Refused("one processor".into()),
        ..Case::default()
    };
    check(&refused, "Refused(\"one processor\")");
}

#[test]
fn what_placement_alone_does_is_taken_out() {
    let baseline = |low, high| Case {
        baseline: Some(Baseline { low, high }),
        ..Case::default()
    };
    check(&baseline(1.5, 1.5), "2.00 [2.00, 2.00] by r12");
    check(&baseline(1.2, 1.5), "2.24 [2.00, 2.50] by r12");
    // That near to 1 it is noise.
    check(&baseline(0.98, 1.02), "3.00 [3.00, 3.00] by r12");
}
