//! Reports with measured costs, one of each outcome that a person meets.

use hitm_model::{
    Avma, Baseline, Cause, CoLocated, CoreDistance, Cost, Evidence, GroupOutcome, Interval,
    Measure, Nanos, NoCost, Progress, Register, Report, SourceFrame, SourceLine, Split, Svma,
    ThreadCost, Tid, Verdict, Waiting, WindowCounts,
};

use crate::reports;

/// Every report here, by name.
pub(crate) fn all() -> Vec<(&'static str, Report)> {
    vec![
        ("two measures", two_measures()),
        ("a rare victim", rare_victim()),
        ("cheap", cheap()),
        ("within the noise", within_the_noise()),
        ("waits", waits()),
        ("no measure", no_measure()),
        ("ended", ended()),
        ("noisy machine", noisy_machine()),
        ("mixed", mixed()),
        ("true sharing", true_sharing()),
        ("two findings", two_findings()),
        ("matrix", matrix()),
        ("pairs", pairs()),
        ("neighbours", neighbours()),
        ("named threads", named_threads()),
        ("odd numbers", odd_numbers()),
    ]
}

/// False sharing of two threads that a register and a word tell of, not quite the same.
pub(crate) fn two_measures() -> Report {
    let worker = |i: u32, low: f64| {
        let word = Measure {
            progress: word(&format!("COUNTS[{i}].hits")),
            ..measure([low + 3.0, low + 2.8, low + 3.2])
        };
        thread(
            &format!("worker-{i}"),
            4242 + i,
            Ok(Cost {
                ratio: interval([low + 1.5, low - 0.2, low + 3.2]),
                floor: 1.02,
                measures: vec![measure([low, low - 0.2, low + 0.5]), word],
            }),
        )
    };
    proven(
        reports::array(),
        [group(vec![worker(0, 4.6), worker(1, 4.8)])],
    )
}

/// The reader pays, the writer hardly does.
pub(crate) fn rare_victim() -> Report {
    proven(
        reports::adjacent_globals(),
        [CoLocated {
            windows: WindowCounts {
                planned: 8,
                apart: 7,
                together: 7,
                dropped: 2,
            },
            baseline: Some(Baseline {
                low: 0.95,
                high: 1.03,
            }),
            threads: vec![
                thread("spawner", 71, Ok(cost([1.06, 1.03, 1.1]))),
                thread("reader", 72, Ok(cost([2.8, 2.6, 3.0]))),
            ],
            ..group(vec![])
        }],
    )
}

/// Two threads that share a line and lose nothing by it.
pub(crate) fn cheap() -> Report {
    proven(
        reports::heap(),
        [group(vec![
            thread("producer", 31, Ok(cost([0.99, 0.98, 1.01]))),
            thread("consumer", 32, Ok(cost([1.0, 0.98, 1.02]))),
        ])],
    )
}

/// Windows of one kind differ by more than those of two.
pub(crate) fn within_the_noise() -> Report {
    let noisy = Cost {
        floor: 1.2,
        ..cost([1.15, 1.02, 1.31])
    };
    let mut report = cheap();
    group_of(&mut report).threads[0].cost = Ok(noisy);
    group_of(&mut report).baseline = None;
    report
}

/// A ring buffer whose one end spins, and threads of a queue that sleep or hand over.
pub(crate) fn waits() -> Report {
    let spins = || {
        Err(NoCost::TheyWait(Waiting::Spins {
            thread: "spawner".into(),
            share: 0.4,
            frames: vec![frame("take", "src/ring.c", 40)],
        }))
    };
    let mut report = proven(
        reports::adjacent_globals(),
        [group(vec![
            thread("spawner", 71, spins()),
            thread("reader", 72, spins()),
        ])],
    );
    let sleeps = Waiting::Sleeps {
        thread: "queue".into(),
        share: 0.35,
        switches_per_second: 1204.0,
    };
    let hands_over = Waiting::HandsOver {
        thread: "worker".into(),
        switches_per_second: 51_234.5,
    };
    report.compared.push(group(vec![
        thread("queue", 1, Err(NoCost::TheyWait(sleeps))),
        thread("worker", 2, Err(NoCost::TheyWait(hands_over))),
    ]));
    report
}

/// One thread tells nothing of its progress, the measures of the other disagree.
pub(crate) fn no_measure() -> Report {
    let disagree = NoCost::MeasuresDisagree {
        low: 1.21,
        high: 390.0,
    };
    proven(
        reports::adjacent_globals(),
        [group(vec![
            thread("spawner", 71, Err(NoCost::NoMeasure)),
            thread("reader", 72, Err(disagree)),
        ])],
    )
}

/// A program that was over too early.
pub(crate) fn ended() -> Report {
    let ended = || {
        Err(NoCost::Ended {
            done: 3,
            planned: 16,
        })
    };
    proven(
        reports::array(),
        [CoLocated {
            outcome: GroupOutcome::ThreadEnded,
            windows: WindowCounts {
                planned: 8,
                apart: 2,
                together: 1,
                dropped: 0,
            },
            ..group(vec![
                thread("worker-0", 4242, ended()),
                thread("worker-1", 4243, ended()),
            ])
        }],
    )
}

/// Others had the processors, and the machine then refused.
pub(crate) fn noisy_machine() -> Report {
    let few = || Err(NoCost::TooFewWindows { dropped: 6, of: 8 });
    let refused = "the cpuset has one processor; give it two: `taskset -cp 0,1 4242`";
    let mut report = proven(
        reports::array(),
        [group(vec![
            thread("worker-0", 4242, few()),
            thread("worker-1", 4243, few()),
        ])],
    );
    report.compared.push(CoLocated {
        outcome: GroupOutcome::Refused(refused.into()),
        windows: WindowCounts::default(),
        ..group(vec![
            thread("a", 1, Err(NoCost::Refused(refused.into()))),
            thread("b", 2, Err(NoCost::Refused(refused.into()))),
        ])
    });
    report
}

/// A part of the cost stays when only the layout is repaired.
pub(crate) fn mixed() -> Report {
    proven(
        reports::mixed(),
        [CoLocated {
            split: Some(Split {
                false_sharing: 0.4,
                true_sharing: 0.6,
            }),
            ..group(vec![
                thread("io_thd_1", 901, Ok(cost([4.8, 4.5, 5.2]))),
                thread("io_thd_3", 903, Ok(cost([2.1, 2.0, 2.3]))),
            ])
        }],
    )
}

/// One counter of all, measured by a word of all that the user named.
pub(crate) fn true_sharing() -> Report {
    let named = Measure {
        progress: word("hits"),
        named: Some("hits".into()),
        ..measure([5.1, 4.9, 5.4])
    };
    let all = ThreadCost {
        tid: None,
        ..thread(
            "worker-*",
            0,
            Ok(Cost {
                measures: vec![named],
                ..cost([5.1, 4.9, 5.4])
            }),
        )
    };
    proven(
        reports::true_sharing(),
        [CoLocated {
            cpus: vec![0, 1, 2, 3],
            outcome: GroupOutcome::TimeOver,
            windows: WindowCounts {
                planned: 12,
                apart: 8,
                together: 9,
                dropped: 0,
            },
            ..group(vec![all])
        }],
    )
}

/// The same threads share a counter besides their array.
pub(crate) fn two_findings() -> Report {
    let pair = || CoLocated {
        split: Some(Split {
            false_sharing: 0.7,
            true_sharing: 0.3,
        }),
        ..group(vec![
            thread("worker", 4242, Ok(cost([5.3, 5.1, 5.5]))),
            thread("worker", 4243, Ok(cost([5.1, 4.9, 5.2]))),
        ])
    };
    let mut report = proven(reports::array(), [pair()]);
    let mut counter = proven(reports::true_sharing(), [pair()]).findings;
    counter[0].fingerprint = "00000000000000ff".into();
    report.findings.append(&mut counter);
    report
}

/// The same pair on two kinds of core pair.
pub(crate) fn matrix() -> Report {
    let on = |distance, cpus: [u32; 2], ratio: f64| CoLocated {
        distance,
        cpus: cpus.into(),
        ..group(vec![
            thread("spawner", 71, Ok(cost([1.0, 0.98, 1.02]))),
            thread("reader", 72, Ok(cost([ratio, ratio - 0.2, ratio + 0.2]))),
        ])
    };
    proven(
        reports::adjacent_globals(),
        [
            on(CoreDistance::SmtSiblings, [0, 4], 1.4),
            on(CoreDistance::OtherPackage, [0, 8], 7.3),
        ],
    )
}

/// More threads than cores: the two heaviest conflicts.
pub(crate) fn pairs() -> Report {
    let pair = |a: u32, b: u32, ratio: f64| {
        let worker = |i: u32, ratio: f64| {
            thread(
                "worker",
                4242 + i,
                Ok(cost([ratio, ratio - 0.2, ratio + 0.2])),
            )
        };
        group(vec![worker(a, ratio), worker(b, ratio - 0.1)])
    };
    proven(reports::array(), [pair(0, 1, 5.3), pair(2, 3, 4.1)])
}

/// Threads whose memory lies side by side: no line is shared.
pub(crate) fn neighbours() -> Report {
    let mut report = reports::empty();
    report.compared = vec![CoLocated {
        causes: vec![
            Cause::Prefetcher {
                below: "lower".into(),
                above: "upper".into(),
                gap: 512,
                towards: Some(true),
            },
            Cause::Bandwidth {
                bytes_per_second: 12.34e9,
            },
            Cause::Capacity { bytes: 3 << 20 },
        ],
        ..group(vec![
            thread("lower", 7, Ok(cost([1.02, 0.99, 1.04]))),
            thread("upper", 8, Ok(cost([1.7, 1.6, 1.8]))),
        ])
    }];
    report
}

/// Threads that the user named, and that have nothing in common.
pub(crate) fn named_threads() -> Report {
    let mut report = reports::array();
    report.compared = vec![group(vec![
        thread("logger", 7, Ok(cost([1.0, 0.99, 1.01]))),
        thread("timer", 8, Ok(cost([1.0, 0.98, 1.01]))),
    ])];
    report
}

/// Numbers that no analysis should give.
pub(crate) fn odd_numbers() -> Report {
    let mut report = cheap();
    group_of(&mut report).threads[0].cost = Ok(cost([f64::NAN, f64::NAN, f64::NAN]));
    group_of(&mut report).threads[1].cost = Ok(cost([9.0, 0.0, f64::INFINITY]));
    report.compared.push(CoLocated {
        window: Nanos(0),
        causes: vec![
            Cause::Prefetcher {
                below: "a".into(),
                above: "b".into(),
                gap: u64::MAX,
                towards: None,
            },
            Cause::Capacity { bytes: u64::MAX },
        ],
        ..group(vec![thread("a", 1, Ok(cost([2.0, 1.9, f64::INFINITY])))])
    });
    report.compared.push(group(vec![]));
    report
}

/// `report` as a false-sharing finding whose one thread loses at most `high`, or has no ratio.
pub(crate) fn with_high(report: Report, highs: [Option<f64>; 2]) -> Report {
    let threads = highs.map(|high| {
        let cost = high.map(|high| cost([high - 0.05, high - 0.1, high]));
        thread("worker", 1, cost.ok_or(NoCost::NoMeasure))
    });
    proven(report, [group(threads.into())])
}

fn proven(mut report: Report, groups: impl IntoIterator<Item = CoLocated>) -> Report {
    let finding = &mut report.findings[0];
    let whole = match finding.verdict {
        Verdict::FalseSharing => Split {
            false_sharing: 0.98,
            true_sharing: 0.02,
        },
        _ => Split {
            false_sharing: 0.0,
            true_sharing: 1.0,
        },
    };
    for group in groups {
        finding.evidence.push(Evidence::CoLocated(CoLocated {
            split: group.split.or(Some(whole)),
            ..group
        }));
    }
    report
}

fn group_of(report: &mut Report) -> &mut CoLocated {
    match report.findings[0].evidence.last_mut() {
        Some(Evidence::CoLocated(group)) => group,
        other => panic!("{other:?}"),
    }
}

fn group(threads: Vec<ThreadCost>) -> CoLocated {
    CoLocated {
        threads,
        distance: CoreDistance::SameCache,
        cpus: vec![0, 1],
        window: Nanos::from_millis(100),
        windows: WindowCounts {
            planned: 8,
            apart: 8,
            together: 8,
            dropped: 0,
        },
        outcome: GroupOutcome::Complete,
        baseline: Some(Baseline {
            low: 0.995,
            high: 1.004,
        }),
        lost: Nanos::from_millis(1234),
        split: None,
        part: None,
        causes: vec![],
    }
}

fn thread(name: &str, tid: u32, cost: Result<Cost, NoCost>) -> ThreadCost {
    ThreadCost {
        name: name.into(),
        tid: Some(Tid(tid)),
        cost,
    }
}

fn cost(ratio: [f64; 3]) -> Cost {
    Cost {
        ratio: interval(ratio),
        floor: 1.02,
        measures: vec![measure(ratio)],
    }
}

fn measure(ratio: [f64; 3]) -> Measure {
    Measure {
        progress: Progress::Register {
            register: Register::Rbx,
            binary: "prog".into(),
            address: Svma(0x1193),
            throughout: false,
            frames: vec![frame("worker", "src/main.c", 40)],
        },
        ratio: interval(ratio),
        per_second_apart: 5.0e7,
        coverage: 0.98,
        dispersion: 0.021,
        steps: 1234,
        steady: 1180,
        named: None,
    }
}

fn word(name: &str) -> Progress {
    Progress::Word {
        name: name.into(),
        address: Avma(0x5555_555b_0040),
    }
}

fn interval([ratio, low, high]: [f64; 3]) -> Interval {
    Interval { ratio, low, high }
}

fn frame(function: &str, file: &str, line: u32) -> SourceFrame {
    SourceFrame {
        function: function.into(),
        line: Some(SourceLine {
            file: file.into(),
            line,
        }),
    }
}
