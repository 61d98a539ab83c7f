//! The whole text, from made-up machines.

use hitm_collect::machine::{
    Abilities, CacheKind, CannotTell, Capabilities, CoRun, Cpu, LatencyMatrix, LineSizes,
    LineSource, MemorySampler, Operation, PairLatency, Ratio, Settings, Spread,
};
use hitm_model::{LineSize, Machine, Nanos};
use nix::errno::Errno;

use super::examine::{Examination, Measured, examine};
use super::render;

fn text(examination: &Examination) -> String {
    let mut out = Vec::new();
    render::examination(examination, &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    anstream::adapter::strip_str(&out).to_string()
}

fn line(bytes: u32) -> LineSize {
    LineSize::new(bytes).unwrap()
}

fn cache(level: u32, kind: &str) -> LineSource {
    LineSource::Sysfs(CacheKind {
        level,
        kind: kind.to_owned(),
    })
}

fn guest() -> Examination {
    let spread = Spread {
        median: 203.4,
        least: 170.7,
        most: 589.3,
        count: 615,
    };
    let ratio = |median, low, high| {
        Ok(Ratio {
            median,
            interval: Some((low, high)),
            pairs: 20,
            left_out: 5,
        })
    };
    let cpus = [Cpu(0), Cpu(1)];
    Examination {
        machine: Machine {
            architecture: "x86_64".into(),
            processor: "AMD EPYC".into(),
            kernel: "6.18.0".into(),
            cpus: 2,
            line_size: Some(line(64)),
            virtual_machine: true,
        },
        cpus: cpus.to_vec(),
        shared_cores: Some(vec![]),
        quota: None,
        lines: LineSizes {
            stated: vec![
                (cache(1, "Data"), line(64)),
                (cache(3, "Unified"), line(64)),
                (LineSource::Sysconf, line(64)),
            ],
        },
        abilities: Abilities {
            clock_event: Ok(()),
            hardware_event: Err(Errno::ENOENT),
            watchpoints: Ok(4),
            read_memory: Ok(()),
            ptrace: Ok(()),
            timer: Ok(()),
            temporary_code: Ok(()),
            settings: Settings {
                perf_event_paranoid: Some(2),
                perf_event_mlock_kb: Some(516),
                ptrace_scope: Some(1),
                seccomp_filter: Some(false),
                capabilities: Some(Capabilities(0)),
                memory_samplers: vec![],
            },
        },
        measured: Some(Measured {
            co_run: Ok(CoRun {
                cpus,
                watched: Nanos::from_millis(200),
                together: 0.993,
                waiting: Some(0.0),
                stolen: Some(0.0),
            }),
            latency: Ok(LatencyMatrix {
                cpus: cpus.to_vec(),
                pairs: vec![PairLatency {
                    cpus,
                    one_way: Ok(spread),
                }],
                all_pairs: 1,
            }),
            same_line: vec![
                (Operation::PlainWrites, ratio(1.0, 0.99, 1.01)),
                (Operation::LockedAdds, ratio(3.36, 3.34, 3.39)),
                (
                    Operation::DependentUpdates,
                    Ok(Ratio {
                        median: 1.97,
                        interval: None,
                        pairs: 4,
                        left_out: 40,
                    }),
                ),
                (
                    Operation::ReaderBesideWriter,
                    Err(CannotTell::NeverCoRan {
                        good: 0,
                        windows: 44,
                    }),
                ),
            ],
            paired_lines: vec![(Operation::LockedAdds, ratio(1.3, 1.24, 1.38))],
        }),
    }
}

#[test]
fn a_guest_with_two_processors() {
    insta::assert_snapshot!(text(&guest()), @r"
        This machine
          processor         AMD EPYC (in a virtual machine)
          kernel            6.18.0, x86_64
          may use           2 processors (0-1), each a core of its own
          line size         64 bytes, every cache (L1d L3)
          perf paranoid     2: programs of this user in user mode, which is enough
          perf rings        up to 516 KiB per processor (kernel.perf_event_mlock_kb)

        What works
          hitm run, perf      yes  software event cpu-clock opens
          hitm run, preload   yes  for dynamically linked programs
          stacks of a child   yes  process_vm_readv works
          stacks, attached    no   kernel.yama.ptrace_scope is 1
                                   type: sudo sysctl kernel.yama.ptrace_scope=0  (or: sudo hitm attach PID)
          watchpoints         yes  4 at once per thread
          PMU                 no   this (virtual) processor does not have it; hitm does not need it
          perf c2c, mem       no   no hardware events: this (virtual) processor does not have it

        What sharing costs here
          side by side      processors 0 and 1 ran two threads at once for 99 % of 200 ms: sharing costs now what it should
          line transfer     one way between two processors, median ns:
                cpu     0     1
                  0     ·   203
                  1   203     ·
              single batches: 171..589 ns over 615 batches
          a shared line     CPU time per operation, on one line over lines far apart:
              plain writes, back to back           1.00×  0.99..1.01     costs nothing
              locked adds                          3.36×  3.34..3.39     costs
              updates that later work depends on   1.97×  no interval    unclear (only 4 of 44 pairs of windows ran side by side)
              a reader beside a writer            cannot tell: two threads ran side by side in only 0 of 44 windows
          128-byte pairs    matters: pad to 128 bytes, the neighbour of a pair of lines costs too
              locked adds                          1.30×  1.24..1.38     costs

        hitm run works here: hitm run -- COMMAND
        ");
}

#[test]
fn a_container_that_refuses_perf_with_a_quota_and_odd_caches() {
    let mut machine = guest();
    machine.quota = Some(1.5);
    machine.shared_cores = Some(vec![vec![Cpu(0), Cpu(1)]]);
    machine.lines.stated = vec![
        (cache(1, "Data"), line(64)),
        (cache(2, "Unified"), line(128)),
    ];
    let can = &mut machine.abilities;
    can.settings.seccomp_filter = Some(true);
    (can.clock_event, can.hardware_event, can.watchpoints) =
        (Err(Errno::EPERM), Err(Errno::EPERM), Err(Errno::EPERM));
    machine.measured = None;
    insta::assert_snapshot!(text(&machine), @r"
        This machine
          processor         AMD EPYC (in a virtual machine)
          kernel            6.18.0, x86_64
          may use           2 processors (0-1), sharing a core: 0-1
          CPU quota         1.50 processors: threads cannot all run side by side for long
          line size         128 bytes, the largest that holds data; the sources differ:
                            L1d (sysfs): 64 bytes
                            L2 (sysfs): 128 bytes
          perf paranoid     2: programs of this user in user mode, which is enough
          perf rings        up to 516 KiB per processor (kernel.perf_event_mlock_kb)

        What works
          hitm run, perf      no   a seccomp filter (a container's default profile) refuses it
                                   type: docker run --cap-add PERFMON … (older Docker: --security-opt seccomp=unconfined)
          hitm run, preload   yes  for dynamically linked programs
          stacks of a child   yes  process_vm_readv works
          stacks, attached    no   kernel.yama.ptrace_scope is 1
                                   type: sudo sysctl kernel.yama.ptrace_scope=0  (or: sudo hitm attach PID)
          watchpoints         no   a seccomp filter (a container's default profile) refuses it
          PMU                 no   a seccomp filter (a container's default profile) refuses it; hitm does not need it
          perf c2c, mem       no   no hardware events: a seccomp filter (a container's default profile) refuses it

        What sharing costs here
          not measured; `hitm doctor` without --quick does it in a few seconds

        hitm run works here with its preloaded agent: hitm run --sampler preload -- COMMAND
        ");
}

#[test]
fn one_processor_nothing_known_nothing_granted() {
    let mut machine = guest();
    machine.cpus = vec![Cpu(3)];
    machine.lines = LineSizes::default();
    machine.shared_cores = None;
    machine.abilities.clock_event = Err(Errno::EACCES);
    machine.abilities.settings = Settings {
        perf_event_paranoid: Some(3),
        ..Settings::default()
    };
    machine.abilities.temporary_code = Err(Errno::EPERM);
    machine.measured = Some(Measured {
        co_run: Err(CannotTell::OneCpu),
        latency: Err(CannotTell::OneCpu),
        same_line: vec![(Operation::LockedAdds, Err(CannotTell::OneCpu))],
        paired_lines: vec![(Operation::LockedAdds, Err(CannotTell::OneCpu))],
    });
    insta::assert_snapshot!(text(&machine), @r"
        This machine
          processor         AMD EPYC (in a virtual machine)
          kernel            6.18.0, x86_64
          may use           1 processor (3): lines are fought over only between two
          line size         unknown: give it to hitm with --line-size
          perf paranoid     3: nothing without CAP_PERFMON

        What works
          hitm run, perf      no   kernel.perf_event_paranoid is 3
                                   type: sudo sysctl kernel.perf_event_paranoid=2
          hitm run, preload   no   the directory for temporary files is mounted noexec
                                   type: TMPDIR=$HOME hitm run --sampler preload -- COMMAND
          stacks of a child   yes  process_vm_readv works
          stacks, attached    yes  of this user
          watchpoints         yes  4 at once per thread
          PMU                 no   this (virtual) processor does not have it; hitm does not need it
          perf c2c, mem       no   no hardware events: this (virtual) processor does not have it

        What sharing costs here
          side by side      cannot tell: only one processor may be used here
          line transfer     cannot tell: only one processor may be used here
          a shared line     cannot tell: only one processor may be used here
          line pairs        cannot tell: only one processor may be used here

        hitm run cannot work here until one of its samplers does; see what to type above
        ");
}

#[test]
fn a_large_machine_shows_extremes_and_says_that_it_sampled() {
    let mut machine = guest();
    machine.cpus = (0..64).map(Cpu).collect();
    let pair = |a: u32, b: u32, nanos: f64| PairLatency {
        cpus: [Cpu(a), Cpu(b)],
        one_way: Ok(Spread {
            median: nanos,
            least: nanos - 5.0,
            most: nanos + 50.0,
            count: 10,
        }),
    };
    machine.abilities.settings.memory_samplers = vec![MemorySampler::Ibs];
    if let Some(measured) = &mut machine.measured {
        let mut pairs = vec![
            pair(0, 1, 20.0),
            pair(0, 32, 210.0),
            pair(2, 3, 21.0),
            pair(8, 40, 190.0),
        ];
        pairs.push(PairLatency {
            cpus: [Cpu(1), Cpu(9)],
            one_way: Err(CannotTell::NeverCoRan {
                good: 0,
                windows: 3,
            }),
        });
        measured.latency = Ok(LatencyMatrix {
            cpus: machine.cpus.clone(),
            pairs,
            all_pairs: 2016,
        });
    }
    let text = text(&machine);
    let from = text.find("  line transfer").unwrap();
    let to = text.find("  a shared line").unwrap();
    insta::assert_snapshot!(&text[from..to], @r"
        line transfer     one way between two processors, median ns:
            106 ns, from 20 to 210, over 4 pairs of processors
            nearest:  0–1 20  2–3 21  8–40 190
            farthest:  2–3 21  8–40 190  0–32 210
            single batches: 15..260 ns over 40 batches
            ?: did not run side by side (1 pairs)
            a sample: 5 of 2016 pairs, spread evenly
        ");
}

#[test]
fn this_machine_is_examined_without_measuring_if_asked() {
    let examination = examine(true, &mut |_, _| {});
    assert!(examination.measured.is_none());
    assert!(text(&examination).contains("not measured"));
}
