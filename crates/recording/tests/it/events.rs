//! Events to record: one of every kind by hand, and any at all by proptest.

use hitm_model::{
    Avma, AvmaRange, Baseline, BuildId, CoreDistance, Event, ExitStatus, Group, GroupEnd,
    GroupOutcome, LineSize, Machine, Mapping, MappingKind, NamedCode, Nanos, Pid, Placement,
    Reading, Registers, RunInfo, RunMode, Sample, SamplerInfo, SamplerKind, SpaceId, StackFrame,
    StopReason, ThreadId, Tid, Window, WindowThread, Word,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// The name of an event's kind. A new kind does not compile here until it has been added at the end, and to
/// [`one_of_each`], [`any_event`], `bytes::every_event_keeps_its_encoding` and docs/recording.md.
pub(crate) fn kind(event: &Event) -> &'static str {
    match event {
        Event::Machine(_) => "Machine",
        Event::Run(_) => "Run",
        Event::Sampler(_) => "Sampler",
        Event::SpaceBorn { .. } => "SpaceBorn",
        Event::Mapping { .. } => "Mapping",
        Event::ThreadBorn { .. } => "ThreadBorn",
        Event::ThreadNamed { .. } => "ThreadNamed",
        Event::ThreadEnded { .. } => "ThreadEnded",
        Event::Sample(_) => "Sample",
        Event::ThreadPointer { .. } => "ThreadPointer",
        Event::Stack { .. } => "Stack",
        Event::Frames { .. } => "Frames",
        Event::Lost { .. } => "Lost",
        Event::ChildEnded { .. } => "ChildEnded",
        Event::Ended { .. } => "Ended",
        Event::Group(_) => "Group",
        Event::Window(_) => "Window",
        Event::GroupEnded(_) => "GroupEnded",
    }
}

/// A sample with pointers in its registers, as a real one has.
pub(crate) fn sample(at: u64) -> Event {
    let mut gpr = [0x7f12_3456_7890 + at; 16];
    gpr[3] = 17;
    gpr[5] = u64::MAX - 1;
    Event::Sample(Sample {
        thread: ThreadId(2),
        at: Nanos(1_000_000_000_000 + 1_000_000 * at),
        cpu: 1,
        registers: Registers {
            ip: Avma(0x5555_5555_5130 + at % 64),
            gpr,
        },
    })
}

/// One event of every kind, in the order of their indexes.
pub(crate) fn one_of_each() -> Vec<Event> {
    let at = Nanos(300);
    let (space, thread) = (SpaceId(1), ThreadId(2));
    let range = AvmaRange::new(Avma(0x1000), Avma(0x3000));
    vec![
        Event::Machine(Machine {
            architecture: "x86_64".into(),
            processor: "Any CPU".into(),
            kernel: "6.1".into(),
            cpus: 2,
            line_size: Some(LineSize::new(64).unwrap()),
            virtual_machine: true,
        }),
        Event::Run(RunInfo {
            mode: RunMode::Run,
            command: vec!["./prog".into(), "-x".into()],
            pid: Pid(7),
            started_unix: Nanos(1 << 40),
            started: at,
            recorder: "0.1.0".into(),
        }),
        Event::Sampler(SamplerInfo {
            kind: SamplerKind::Preload,
            period: Nanos(1_000_000),
            cost: Some(Nanos(26_000)),
            rate_given: false,
            fallback: Some("EPERM".into()),
            shortfall: Some("static".into()),
        }),
        Event::SpaceBorn {
            space,
            pid: Pid(7),
            parent: Some(SpaceId(0)),
            at,
        },
        Event::Mapping {
            space,
            at,
            mapping: Mapping {
                range,
                kind: MappingKind::File {
                    path: "/bin/x".into(),
                    offset: 4096,
                    build_id: Some(BuildId(vec![0xab, 0xcd])),
                },
                executable: true,
                writable: false,
            },
        },
        Event::ThreadBorn {
            thread,
            space,
            tid: Tid(1234),
            name: "worker".into(),
            at,
        },
        Event::ThreadNamed {
            thread,
            name: "io-1".into(),
            at,
        },
        Event::ThreadEnded { thread, at },
        sample(0),
        Event::ThreadPointer {
            thread,
            fs_base: Avma(0x7f00_0000_0740),
        },
        Event::Stack { thread, range },
        Event::Frames {
            thread,
            at,
            frames: vec![StackFrame {
                ip: Avma(0x1234),
                cfa: Avma(0x7ffc_0000),
                fp: Avma(0),
                is_return: true,
            }],
        },
        Event::Lost { at, events: 5 },
        Event::ChildEnded {
            pid: Pid(7),
            status: ExitStatus::Signal(11),
        },
        Event::Ended {
            at,
            reason: StopReason::WriteFailed("no space".into()),
        },
        Event::Group(Group {
            number: 3,
            threads: vec![thread, ThreadId(4)],
            words: vec![Word {
                thread: Some(thread),
                address: Avma(0x4010),
                size: 8,
                name: Some("done".into()),
            }],
            code: vec![NamedCode {
                name: "work".into(),
                ranges: vec![range],
            }],
            cpus: vec![0, 1],
            distance: CoreDistance::SameCache,
            planned: 8,
            length: Nanos(150_000_000),
            baseline: Some(Baseline {
                low: 0.5,
                high: 1.0,
            }),
        }),
        Event::Window(Window {
            group: 3,
            placement: Placement::Together,
            start: at,
            end: Nanos(400),
            threads: vec![WindowThread {
                cpu: 1,
                ran: Nanos(60),
                waited: Nanos(40),
                voluntary: 1,
                involuntary: 2,
            }],
            words: vec![vec![Reading {
                at,
                ran: Nanos(30),
                value: 1000,
            }]],
            stolen: Some(Nanos(0)),
        }),
        Event::GroupEnded(GroupEnd {
            number: 3,
            outcome: GroupOutcome::Refused("one processor".into()),
            lost: Nanos(80),
        }),
    ]
}

/// Any event of any kind.
pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => any_sample(),
        1 => prop_oneof![any_machine(), any_run(), any_sampler()],
        2 => prop_oneof![any_space(), any_mapping()],
        4 => any_thread(),
        2 => any_ending(),
        2 => any_windows(),
    ]
}

fn at() -> impl Strategy<Value = Nanos> {
    any::<u64>().prop_map(Nanos)
}

fn thread() -> impl Strategy<Value = ThreadId> {
    any::<u32>().prop_map(ThreadId)
}

fn avma() -> impl Strategy<Value = Avma> {
    prop_oneof![any::<u64>(), 0..300u64].prop_map(Avma)
}

fn range() -> impl Strategy<Value = AvmaRange> {
    (avma(), avma()).prop_map(|(start, end)| AvmaRange { start, end })
}

fn text() -> impl Strategy<Value = String> {
    ".{0,20}"
}

fn any_sample() -> impl Strategy<Value = Event> {
    let word = prop_oneof![any::<u64>(), 0..300u64, (0..64u32).prop_map(|bit| 1 << bit)];
    (
        thread(),
        at(),
        any::<u32>(),
        avma(),
        proptest::array::uniform16(word),
    )
        .prop_map(|(thread, at, cpu, ip, gpr)| {
            Event::Sample(Sample {
                thread,
                at,
                cpu,
                registers: Registers { ip, gpr },
            })
        })
}

fn any_machine() -> impl Strategy<Value = Event> {
    (
        text(),
        text(),
        text(),
        any::<u32>(),
        option::of(4..13u32),
        any::<bool>(),
    )
        .prop_map(
            |(architecture, processor, kernel, cpus, line, virtual_machine)| {
                Event::Machine(Machine {
                    architecture,
                    processor,
                    kernel,
                    cpus,
                    line_size: line.map(|log| LineSize::new(1 << log).unwrap()),
                    virtual_machine,
                })
            },
        )
}

fn any_run() -> impl Strategy<Value = Event> {
    (
        any::<bool>(),
        vec(text(), 0..4),
        any::<u32>(),
        at(),
        at(),
        text(),
    )
        .prop_map(|(run, command, pid, started_unix, started, recorder)| {
            Event::Run(RunInfo {
                mode: if run { RunMode::Run } else { RunMode::Attach },
                command,
                pid: Pid(pid),
                started_unix,
                started,
                recorder,
            })
        })
}

fn any_sampler() -> impl Strategy<Value = Event> {
    (
        any::<bool>(),
        at(),
        option::of(at()),
        any::<bool>(),
        option::of(text()),
        option::of(text()),
    )
        .prop_map(|(perf, period, cost, rate_given, fallback, shortfall)| {
            Event::Sampler(SamplerInfo {
                kind: if perf {
                    SamplerKind::Perf
                } else {
                    SamplerKind::Preload
                },
                period,
                cost,
                rate_given,
                fallback,
                shortfall,
            })
        })
}

fn any_space() -> impl Strategy<Value = Event> {
    (
        any::<u32>(),
        any::<u32>(),
        option::of(any::<u32>().prop_map(SpaceId)),
        at(),
    )
        .prop_map(|(space, pid, parent, at)| Event::SpaceBorn {
            space: SpaceId(space),
            pid: Pid(pid),
            parent,
            at,
        })
}

fn any_mapping() -> impl Strategy<Value = Event> {
    let file = (
        text(),
        any::<u64>(),
        option::of(vec(any::<u8>(), 0..24).prop_map(BuildId)),
    )
        .prop_map(|(path, offset, build_id)| MappingKind::File {
            path,
            offset,
            build_id,
        });
    let kind = prop_oneof![
        file,
        Just(MappingKind::Heap),
        Just(MappingKind::MainStack),
        Just(MappingKind::Anonymous),
        text().prop_map(MappingKind::Special),
    ];
    (
        any::<u32>(),
        at(),
        range(),
        kind,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(space, at, range, kind, executable, writable)| Event::Mapping {
                space: SpaceId(space),
                at,
                mapping: Mapping {
                    range,
                    kind,
                    executable,
                    writable,
                },
            },
        )
}

fn any_thread() -> impl Strategy<Value = Event> {
    let frame =
        (avma(), avma(), avma(), any::<bool>()).prop_map(|(ip, cfa, fp, is_return)| StackFrame {
            ip,
            cfa,
            fp,
            is_return,
        });
    prop_oneof![
        (thread(), any::<u32>(), any::<u32>(), text(), at()).prop_map(
            |(thread, space, tid, name, at)| Event::ThreadBorn {
                thread,
                space: SpaceId(space),
                tid: Tid(tid),
                name,
                at,
            }
        ),
        (thread(), text(), at()).prop_map(|(thread, name, at)| Event::ThreadNamed {
            thread,
            name,
            at
        }),
        (thread(), at()).prop_map(|(thread, at)| Event::ThreadEnded { thread, at }),
        (thread(), avma()).prop_map(|(thread, fs_base)| Event::ThreadPointer { thread, fs_base }),
        (thread(), range()).prop_map(|(thread, range)| Event::Stack { thread, range }),
        (thread(), at(), vec(frame, 0..5)).prop_map(|(thread, at, frames)| Event::Frames {
            thread,
            at,
            frames
        }),
    ]
}

fn any_ending() -> impl Strategy<Value = Event> {
    let status = prop_oneof![
        any::<i32>().prop_map(ExitStatus::Code),
        any::<i32>().prop_map(ExitStatus::Signal),
    ];
    let reason = prop_oneof![
        Just(StopReason::ProgramEnded),
        Just(StopReason::TimeOver),
        Just(StopReason::Interrupted),
        text().prop_map(StopReason::WriteFailed),
    ];
    prop_oneof![
        (at(), any::<u64>()).prop_map(|(at, events)| Event::Lost { at, events }),
        (any::<u32>(), status).prop_map(|(pid, status)| Event::ChildEnded {
            pid: Pid(pid),
            status
        }),
        (at(), reason).prop_map(|(at, reason)| Event::Ended { at, reason }),
    ]
}

fn any_windows() -> impl Strategy<Value = Event> {
    let word = (
        option::of(thread()),
        avma(),
        prop::sample::select(vec![1u8, 2, 4, 8]),
        option::of(text()),
    )
        .prop_map(|(thread, address, size, name)| Word {
            thread,
            address,
            size,
            name,
        });
    let code = (text(), vec(range(), 0..3)).prop_map(|(name, ranges)| NamedCode { name, ranges });
    let baseline = (0.1..10.0f64, 0.1..10.0f64).prop_map(|(low, high)| Baseline { low, high });
    let distance = prop::sample::select(vec![
        CoreDistance::SmtSiblings,
        CoreDistance::SameCluster,
        CoreDistance::SameCache,
        CoreDistance::SamePackage,
        CoreDistance::OtherPackage,
        CoreDistance::Unknown,
    ]);
    let outcome = prop_oneof![
        Just(GroupOutcome::Complete),
        Just(GroupOutcome::ThreadEnded),
        Just(GroupOutcome::TimeOver),
        Just(GroupOutcome::Interrupted),
        text().prop_map(GroupOutcome::Refused),
    ];
    let in_window = (any::<u32>(), at(), at(), any::<u32>(), any::<u32>()).prop_map(
        |(cpu, ran, waited, voluntary, involuntary)| WindowThread {
            cpu,
            ran,
            waited,
            voluntary,
            involuntary,
        },
    );
    let reading =
        (at(), at(), any::<u64>()).prop_map(|(at, ran, value)| Reading { at, ran, value });
    let placement = prop::sample::select(vec![Placement::Apart, Placement::Together]);
    prop_oneof![
        (
            (
                any::<u32>(),
                vec(thread(), 0..4),
                vec(word, 0..3),
                vec(code, 0..2)
            ),
            (
                vec(any::<u32>(), 0..4),
                distance,
                any::<u32>(),
                at(),
                option::of(baseline)
            ),
        )
            .prop_map(
                |((number, threads, words, code), (cpus, distance, planned, length, baseline))| {
                    Event::Group(Group {
                        number,
                        threads,
                        words,
                        code,
                        cpus,
                        distance,
                        planned,
                        length,
                        baseline,
                    })
                }
            ),
        (
            (any::<u32>(), placement, at(), at()),
            (
                vec(in_window, 0..4),
                vec(vec(reading, 0..4), 0..3),
                option::of(at())
            ),
        )
            .prop_map(
                |((group, placement, start, end), (threads, words, stolen))| {
                    Event::Window(Window {
                        group,
                        placement,
                        start,
                        end,
                        threads,
                        words,
                        stolen,
                    })
                }
            ),
        (any::<u32>(), outcome, at()).prop_map(|(number, outcome, lost)| {
            Event::GroupEnded(GroupEnd {
                number,
                outcome,
                lost,
            })
        }),
    ]
}
