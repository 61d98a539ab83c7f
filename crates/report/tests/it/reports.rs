//! Reports made by hand, one of each kind that a person meets.
//!
//! The length of this file is that of its data: the reports share their parts.

use hitm_model::{
    AccessKind, AccessKinds, Advice, AdviceKind, Avma, ByteRange, Caveat, Communication,
    Confidence, Evidence, ExitStatus, Finding, LineAddress, LineSize, LineView, Machine, Nanos,
    Object, ObjectKind, Participant, Pid, Report, RunInfo, RunMode, Sampled, SamplerInfo,
    SamplerKind, Severity, Site, SourceFrame, SourceLine, Svma, ThreadGroup, Tid, Totals, Verdict,
};

/// Every report here and those with measured costs, by name.
pub(crate) fn all() -> Vec<(&'static str, Report)> {
    let mut all = vec![
        ("array", array()),
        ("adjacent globals", adjacent_globals()),
        ("mixed", mixed()),
        ("true sharing", true_sharing()),
        ("lock and data", lock_and_data()),
        ("heap", heap()),
        ("stripped", stripped()),
        ("many participants", many_participants()),
        ("several", several()),
        ("empty", empty()),
        ("bare", bare()),
    ];
    all.extend(crate::costs::all());
    all
}

/// Eight threads, eight counters, one line.
pub(crate) fn array() -> Report {
    let participants = (0..8)
        .map(|i| Participant {
            threads: group(&format!("worker-{i}"), &[4242 + i]),
            field_path: format!("COUNTS[{i}].hits"),
            field_type: Some("core::sync::atomic::AtomicU64".into()),
            sites: vec![site(
                0x1a2b3,
                AccessKind::Atomic,
                3800,
                &[
                    (
                        "core::sync::atomic::atomic_add::<u64>",
                        "/rustc/5980761/library/core/src/sync/atomic.rs",
                        3799,
                    ),
                    ("collector::record", "src/main.rs", 31),
                    ("collector::worker::{closure#0}", "src/main.rs", 47),
                ],
            )],
            ..participant(i * 8, 8, AccessKind::Atomic, 3800, 3910)
        })
        .collect();
    report(Finding {
        objects: vec![Object {
            type_name: Some("[collector::Slot; 8]".into()),
            size: Some(64),
            declared: Some(line("src/main.rs", 12)),
            ..object("COUNTS", 0x5555_555b_0040)
        }],
        participants,
        advice: Advice {
            kind: AdviceKind::PadElements,
            text: "give each element of COUNTS a line of its own: `#[repr(align(64))]` on collector::Slot".into(),
            added_bytes: Some(448),
        },
        ..finding(Verdict::FalseSharing, 30_400, 31_280, 0.974)
    })
}

/// Two subsystems' globals that the linker put on one line: a rare writer, and a reader that it hurts.
pub(crate) fn adjacent_globals() -> Report {
    let mut finding = Finding {
        objects: vec![
            Object {
                type_name: Some("unsigned long".into()),
                size: Some(8),
                declared: Some(line("/home/dev/src/runtime/spawner.cpp", 88)),
                ..object("mem_array_idx", 0x5555_555b_0048)
            },
            Object {
                type_name: Some("std::atomic<unsigned long>".into()),
                size: Some(8),
                ..object("global_epoch", 0x5555_555b_0050)
            },
        ],
        participants: vec![
            Participant {
                threads: group("spawner", &[71]),
                field_path: "mem_array_idx".into(),
                field_type: Some("unsigned long".into()),
                sites: vec![
                    site(
                        0x1240,
                        AccessKind::Update,
                        300,
                        &[("Spawner::run", "/home/dev/src/runtime/spawner.cpp", 131)],
                    ),
                    site(
                        0x1310,
                        AccessKind::Write,
                        40,
                        &[("Spawner::reset", "/home/dev/src/runtime/spawner.cpp", 152)],
                    ),
                    site(
                        0x1320,
                        AccessKind::Write,
                        2,
                        &[("Spawner::reset", "/home/dev/src/runtime/spawner.cpp", 153)],
                    ),
                ],
                ..participant(8, 8, AccessKind::Update, 342, 4000)
            },
            Participant {
                threads: group("reader", &[72]),
                object: Some(1),
                field_path: "global_epoch".into(),
                field_type: Some("std::atomic<unsigned long>".into()),
                sites: vec![site(
                    0x2240,
                    AccessKind::Read,
                    3880,
                    &[
                        (
                            "std::__atomic_base<unsigned long>::load",
                            "/usr/include/c++/12/bits/atomic_base.h",
                            488,
                        ),
                        ("Epoch::current", "/home/dev/src/runtime/epoch.hpp", 20),
                        ("Worker::loop", "/home/dev/src/runtime/worker.cpp", 211),
                    ],
                )],
                ..participant(16, 8, AccessKind::Read, 3880, 4000)
            },
        ],
        advice: Advice {
            kind: AdviceKind::IsolateWritten,
            text: "put mem_array_idx on a line of its own: `alignas(64)`".into(),
            added_bytes: Some(112),
        },
        ..finding(Verdict::FalseSharing, 4222, 8000, 0.97)
    };
    finding.evidence = vec![Evidence::Sampled(Sampled {
        met_overlapping: 1,
        met: 3101,
        met_disjoint: 3100,
        ..sampled(4222)
    })];
    report(finding)
}

/// Bytes of one thread each, and one byte of all, in one structure.
pub(crate) fn mixed() -> Report {
    let field = |i: u32, at, field: &str, kind| Participant {
        threads: group(&format!("io_thd_{i}"), &[900 + i]),
        field_path: format!("server.{field}"),
        field_type: Some("long long".into()),
        sites: vec![site(
            0x4_5e10,
            kind,
            500,
            &[("readQueryFromClient", "networking.c", 2711)],
        )],
        ..participant(at, 8, kind, 500, 2000)
    };
    let mut finding = Finding {
        objects: vec![Object {
            type_name: Some("struct redisServer".into()),
            size: Some(12_345),
            ..object("server", 0x5555_5570_0000)
        }],
        participants: vec![
            field(1, 0, "stat_io_reads_processed[1]", AccessKind::Update),
            field(2, 8, "stat_io_reads_processed[2]", AccessKind::Update),
            Participant {
                field_type: Some("_Atomic char".into()),
                ..Participant {
                    range: ByteRange { start: 17, end: 18 },
                    ..field(1, 17, "io_paused", AccessKind::Atomic)
                }
            },
            Participant {
                field_type: Some("_Atomic char".into()),
                ..Participant {
                    range: ByteRange { start: 17, end: 18 },
                    ..field(3, 17, "io_paused", AccessKind::Read)
                }
            },
        ],
        advice: Advice {
            kind: AdviceKind::SplitFields,
            text: "move stat_io_reads_processed to a line of its own, one per thread".into(),
            added_bytes: None,
        },
        confidence: Confidence::Medium,
        ..finding(Verdict::Mixed, 2000, 6000, 0.5)
    };
    finding.evidence = vec![Evidence::Sampled(Sampled {
        met: 800,
        met_disjoint: 500,
        met_overlapping: 300,
        ..sampled(2000)
    })];
    report(finding)
}

pub(crate) fn true_sharing() -> Report {
    report(shared_counter())
}

fn shared_counter() -> Finding {
    let mut finding = Finding {
        objects: vec![Object {
            type_name: Some("_Atomic unsigned long".into()),
            size: Some(8),
            ..object("hits", 0x5555_555b_0100)
        }],
        participants: vec![Participant {
            threads: group("worker-*", &[11, 12, 13, 14]),
            field_path: "hits".into(),
            sites: vec![site(
                0x1193,
                AccessKind::Atomic,
                7000,
                &[("worker", "hits.c", 20)],
            )],
            ..participant(0, 8, AccessKind::Atomic, 7000, 8000)
        }],
        lines: vec![view(0x5555_555b_0100, 7000)],
        advice: Advice {
            kind: AdviceKind::PerThreadCopies,
            text: "give each thread a counter of its own and add them up on reading".into(),
            added_bytes: None,
        },
        ..finding(Verdict::TrueSharing, 7000, 8000, 0.89)
    };
    finding.evidence = vec![Evidence::Sampled(Sampled {
        met_disjoint: 0,
        met_overlapping: 6800,
        met: 6800,
        ..sampled(7000)
    })];
    finding
}

pub(crate) fn lock_and_data() -> Report {
    report(locked_queue())
}

fn locked_queue() -> Finding {
    Finding {
        objects: vec![Object {
            type_name: Some("struct queue".into()),
            size: Some(64),
            ..object("queue", 0x5555_555b_0200)
        }],
        participants: vec![
            Participant {
                threads: group("worker-*", &[11, 12]),
                field_path: "queue.lock".into(),
                sites: vec![site(
                    0x1200,
                    AccessKind::Atomic,
                    900,
                    &[("pthread_mutex_lock", "pthread_mutex_lock.c", 80)],
                )],
                ..participant(0, 4, AccessKind::Atomic, 900, 4000)
            },
            Participant {
                threads: group("worker-*", &[11, 12]),
                field_path: "queue.len".into(),
                sites: vec![site(
                    0x1260,
                    AccessKind::Update,
                    300,
                    &[("push", "queue.c", 31)],
                )],
                ..participant(40, 8, AccessKind::Update, 300, 4000)
            },
        ],
        lines: vec![view(0x5555_555b_0200, 1200)],
        advice: Advice {
            kind: AdviceKind::LeaveAsIs,
            text: "leave them together; hold the lock for less time".into(),
            added_bytes: None,
        },
        confidence: Confidence::Low,
        ..finding(Verdict::LockAndData, 1200, 4000, 0.3)
    }
}

/// A heap block whose type came from the pointer, over two lines.
pub(crate) fn heap() -> Report {
    report(Finding {
        objects: vec![Object {
            kind: ObjectKind::Heap,
            type_name: Some("struct Shard".into()),
            binary: None,
            section: None,
            size: Some(96),
            inferred: Some("from the type of `shard` in push_back".into()),
            ..object("(heap) Shard", 0x7fff_e800_0b70)
        }],
        lines: vec![view(0x7fff_e800_0bc0, 1500), view(0x7fff_e800_0b80, 40)],
        participants: vec![
            Participant {
                threads: group("生産者", &[31]),
                field_path: "(heap) Shard.tail".into(),
                field_type: Some("size_t".into()),
                sites: vec![site(
                    0x1300,
                    AccessKind::Write,
                    700,
                    &[("push_back", "shard.c", 55), ("produce", "shard.c", 80)],
                )],
                ..participant(0, 8, AccessKind::Write, 700, 1000)
            },
            Participant {
                threads: group("consumer\u{1b}[31m", &[32]),
                field_path: "(heap) Shard.head".into(),
                field_type: Some("size_t".into()),
                sites: vec![site(
                    0x1380,
                    AccessKind::Write,
                    800,
                    &[("pop_front", "shard.c", 66)],
                )],
                ..participant(8, 4, AccessKind::Write, 800, 1000)
            },
            Participant {
                threads: group("consumer\u{1b}[31m", &[32]),
                line: 1,
                field_path: "(heap) Shard.flags".into(),
                field_type: None,
                sites: vec![],
                ..participant(60, 4, AccessKind::Read, 40, 1000)
            },
        ],
        advice: Advice {
            kind: AdviceKind::SplitFields,
            text: "put head and tail of Shard on different lines".into(),
            added_bytes: Some(64),
        },
        caveats: vec![Caveat::PlainWritesOnly],
        ..finding(Verdict::FalseSharing, 1540, 2000, 0.8)
    })
}

/// No names at all, and a run that was not a good one.
pub(crate) fn stripped() -> Report {
    let mut report = report(Finding {
        objects: vec![],
        participants: [0, 8]
            .map(|at| Participant {
                threads: group("a.out", &[50 + at]),
                field_path: format!("a.out .bss +{:#x}", 0x40 + at),
                object: None,
                sites: vec![site(0x1193 + u64::from(at), AccessKind::Atomic, 20, &[])],
                ..participant(at, 8, AccessKind::Atomic, 20, 50)
            })
            .to_vec(),
        confidence: Confidence::Low,
        advice: Advice {
            kind: AdviceKind::IsolateWritten,
            text: "give what lies at these offsets lines of their own".into(),
            added_bytes: None,
        },
        ..finding(Verdict::Unproven, 40, 100, 0.4)
    });
    report.child = Some(ExitStatus::Signal(11));
    report.sampler = Some(SamplerInfo {
        kind: SamplerKind::Preload,
        period: Nanos(200_000),
        cost: None,
        rate_given: true,
        fallback: Some("perf_event_open is refused (EPERM)".into()),
        shortfall: None,
    });
    report.totals = Totals {
        samples: 100,
        lost: 7,
        undecoded: 12,
        operands: 180,
        unresolved: 9,
        unmapped: 3,
        threads: 3,
        sampled_threads: 2,
        writing_threads: 2,
        spaces: 1,
        duration: Nanos(50_000_000),
        co_running: Some(0.004),
    };
    report.below_min_share = 1;
    report.caveats = vec![
        Caveat::SamplerFallback {
            why: "perf_event_open is refused (EPERM)".into(),
        },
        Caveat::FewSamples { samples: 100 },
        Caveat::Stripped {
            binary: "a.out".into(),
        },
    ];
    report
}

/// 64 threads on the elements of an array of eight lines.
pub(crate) fn many_participants() -> Report {
    report(Finding {
        objects: vec![Object {
            type_name: Some("uint64_t [64]".into()),
            size: Some(512),
            ..object("cnt", 0x5555_555b_0040)
        }],
        lines: (0..8)
            .map(|i| view(0x5555_555b_0040 + i * 64, 800 - i))
            .collect(),
        participants: (0..64)
            .map(|i| Participant {
                threads: group("cnt", &[100 + i]),
                line: i as usize / 8,
                field_path: format!("cnt[{i}]"),
                sites: vec![site(
                    0x1193,
                    AccessKind::Atomic,
                    100,
                    &[("count", "cnt.c", 9)],
                )],
                ..participant(i % 8 * 8, 8, AccessKind::Atomic, 100, 120)
            })
            .collect(),
        advice: Advice {
            kind: AdviceKind::PadElements,
            text: "give each element of cnt a line of its own".into(),
            added_bytes: Some(3584),
        },
        ..finding(Verdict::FalseSharing, 6400, 7680, 0.85)
    })
}

/// All of one run, in the order of an analysis.
pub(crate) fn several() -> Report {
    let mut report = array();
    report.findings.extend(mixed().findings);
    report.findings.push(shared_counter());
    report.findings.push(locked_queue());
    report.below_min_share = 4;
    report.communication = [("ring.tail", 0.31), ("ring.head", 0.02)]
        .map(|(field, share)| Communication {
            field_path: field.into(),
            worst_thread: share,
        })
        .into();
    report
}

/// A program without a fault.
pub(crate) fn empty() -> Report {
    Report {
        findings: vec![],
        ..report(shared_counter())
    }
}

/// Nothing is known: a recording that was cut behind its header.
pub(crate) fn bare() -> Report {
    Report {
        machine: None,
        run: None,
        sampler: None,
        child: None,
        totals: Totals::default(),
        findings: vec![],
        caveats: vec![Caveat::RecordingTruncated, Caveat::NoSamples],
        ..empty()
    }
}

fn report(finding: Finding) -> Report {
    Report {
        machine: Some(Machine {
            architecture: "x86_64".into(),
            processor: "Any CPU".into(),
            kernel: "6.1.0".into(),
            cpus: 8,
            line_size: Some(LineSize::new(64).unwrap()),
            virtual_machine: true,
        }),
        run: Some(RunInfo {
            mode: RunMode::Run,
            command: vec!["./prog".into(), "--name".into(), "it's me".into()],
            pid: Pid(4241),
            started_unix: Nanos(1_700_000_000_000_000_000),
            started: Nanos(5_000_000_000),
            recorder: "0.1.0".into(),
        }),
        sampler: Some(SamplerInfo {
            kind: SamplerKind::Perf,
            period: Nanos(1_000_000),
            cost: Some(Nanos(26_000)),
            rate_given: false,
            fallback: None,
            shortfall: None,
        }),
        child: Some(ExitStatus::Code(0)),
        line_size: LineSize::new(64).unwrap(),
        totals: Totals {
            samples: 31_290,
            lost: 0,
            undecoded: 4,
            operands: 62_007,
            unresolved: 310,
            unmapped: 1,
            threads: 9,
            sampled_threads: 9,
            writing_threads: 9,
            spaces: 1,
            duration: Nanos(4_012_000_000),
            co_running: Some(0.981),
        },
        findings: vec![finding],
        below_min_share: 0,
        communication: Vec::new(),
        compared: Vec::new(),
        caveats: vec![],
    }
}

fn finding(verdict: Verdict, samples: u64, thread_samples: u64, worst_thread: f64) -> Finding {
    Finding {
        fingerprint: "5f1d2c3b4a596877".into(),
        verdict,
        one_way: false,
        objects: vec![],
        lines: vec![view(0x5555_555b_0040, samples)],
        participants: vec![],
        severity: Severity {
            samples,
            thread_samples,
            worst_thread,
        },
        confidence: Confidence::High,
        evidence: vec![Evidence::Sampled(sampled(samples))],
        advice: Advice {
            kind: AdviceKind::LeaveAsIs,
            text: String::new(),
            added_bytes: None,
        },
        next: "hitm prove -- ./prog --name 'it'\\''s me'".into(),
        caveats: vec![],
    }
}

fn sampled(samples: u64) -> Sampled {
    Sampled {
        samples,
        met: samples * 9 / 10,
        met_disjoint: samples * 9 / 10,
        met_overlapping: 0,
        window: Nanos(2_000_000),
        met_on_other_cpu: samples * 8 / 10,
        plain_writes_only: false,
    }
}

fn object(name: &str, address: u64) -> Object {
    Object {
        kind: ObjectKind::Global,
        name: name.into(),
        type_name: None,
        binary: Some("prog".into()),
        section: Some(".bss".into()),
        address: Avma(address),
        size: None,
        declared: None,
        inferred: None,
    }
}

fn participant(at: u32, size: u32, kind: AccessKind, samples: u64, of: u64) -> Participant {
    Participant {
        threads: group("thread", &[1]),
        line: 0,
        range: ByteRange {
            start: at,
            end: at + size,
        },
        kinds: AccessKinds::from(kind),
        field_path: String::new(),
        field_type: None,
        object: Some(0),
        samples,
        thread_samples: of,
        sites: vec![],
    }
}

fn site(address: u64, kind: AccessKind, samples: u64, frames: &[(&str, &str, u32)]) -> Site {
    Site {
        binary: "prog".into(),
        address: Svma(address),
        kinds: AccessKinds::from(kind),
        samples,
        frames: frames
            .iter()
            .map(|(function, file, at)| SourceFrame {
                function: (*function).into(),
                line: Some(line(file, *at)),
            })
            .collect(),
    }
}

fn group(name: &str, tids: &[u32]) -> ThreadGroup {
    ThreadGroup {
        name: name.into(),
        tids: tids.iter().copied().map(Tid).collect(),
    }
}

fn view(address: u64, samples: u64) -> LineView {
    LineView {
        address: LineAddress(Avma(address)),
        samples,
    }
}

fn line(file: &str, line: u32) -> SourceLine {
    SourceLine {
        file: file.into(),
        line,
    }
}
