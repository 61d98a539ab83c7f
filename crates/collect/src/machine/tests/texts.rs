//! What the kernel's files say.

use std::fmt::Write as _;
use std::fs;

use hitm_model::LineSize;

use crate::machine::corun::StatTicks;
use crate::machine::window::parse_run_delay;
use crate::machine::*;

/// Lays out `files` (path, text) as a fixture tree and compares what is read from it, item by item.
fn check(files: &[(&str, &str)], expected: &str) {
    let tree = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = tree.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let files = SystemFiles::below(tree.path());
    let mut found = String::new();
    let mut item = |name: &str, value: String| {
        if !value.is_empty() && expected.lines().any(|line| line.trim().starts_with(name)) {
            writeln!(found, "{name}: {value}").unwrap();
        }
    };
    let cpuinfo = files.text("proc/cpuinfo").unwrap_or_default();
    let processor = processor(&cpuinfo);
    item(
        "processor",
        format!("{}, virtual {}", processor.name, processor.hypervisor),
    );
    let sizes = line_sizes(&files);
    let stated: Vec<String> = sizes
        .stated
        .iter()
        // What the C library says is that of the machine under the test.
        .filter(|(source, _)| *source != LineSource::Sysconf)
        .map(|(source, size)| format!("{source} {size}"))
        .collect();
    item("lines", stated.join(", "));
    item(
        "coherence",
        format!("{:?}", sizes.coherence().map(LineSize::bytes)),
    );
    item("quota", format!("{:?}", cpu_quota(&files)));
    let allowed = [0, 1, 2, 3].map(Cpu);
    let cores = shared_cores(&files, &allowed);
    item("two", format!("{:?}", two_cpus(&allowed, cores.as_deref())));
    item("cores", format!("{cores:?}"));
    let settings = settings(&files);
    item("paranoid", format!("{:?}", settings.perf_event_paranoid));
    item("mlock", format!("{:?}", settings.perf_event_mlock_kb));
    item("scope", format!("{:?}", settings.ptrace_scope));
    item("seccomp", format!("{:?}", settings.seccomp_filter));
    item(
        "perfmon",
        format!("{:?}", settings.capabilities.map(Capabilities::perfmon)),
    );
    item(
        "ptrace",
        format!("{:?}", settings.capabilities.map(Capabilities::ptrace)),
    );
    item("samplers", format!("{:?}", settings.memory_samplers));
    let expected: String = expected
        .lines()
        .map(|line| format!("{}\n", line.trim()))
        .collect();
    let sort = |text: &str| {
        let mut lines: Vec<String> = text
            .lines()
            .map(str::to_owned)
            .filter(|line| !line.is_empty())
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(sort(&found), sort(&expected));
}

const CACHES: &[(&str, &str)] = &[
    ("sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"),
    ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n"),
    (
        "sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size",
        "64\n",
    ),
    ("sys/devices/system/cpu/cpu0/cache/index1/level", "1\n"),
    (
        "sys/devices/system/cpu/cpu0/cache/index1/type",
        "Instruction\n",
    ),
    (
        "sys/devices/system/cpu/cpu0/cache/index1/coherency_line_size",
        "256\n",
    ),
    ("sys/devices/system/cpu/cpu0/cache/index2/level", "3\n"),
    ("sys/devices/system/cpu/cpu0/cache/index2/type", "Unified\n"),
    (
        "sys/devices/system/cpu/cpu0/cache/index2/coherency_line_size",
        "128\n",
    ),
    (
        "sys/devices/system/cpu/cpufreq/cache/index0/coherency_line_size",
        "4096\n",
    ),
];

#[test]
fn the_granule_is_the_largest_line_that_holds_data() {
    check(
        CACHES,
        "lines: L1d (sysfs) 64, L1i (sysfs) 256, L3 (sysfs) 128
         coherence: Some(128)",
    );
}

#[test]
fn a_damaged_cache_directory_is_left_out() {
    check(
        &[
            ("sys/devices/system/cpu/cpu0/cache/index0/level", "1"),
            ("sys/devices/system/cpu/cpu0/cache/index0/type", "Data"),
            (
                "sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size",
                "48",
            ),
            (
                "sys/devices/system/cpu/cpu1/cache/index0/coherency_line_size",
                "64",
            ),
            ("proc/cpuinfo", "processor\t: 0\nclflush size\t: 64\n"),
        ],
        "lines: kernel (/proc/cpuinfo) 64",
    );
}

#[test]
fn a_guest_says_so_and_an_arm_processor_has_numbers_only() {
    check(
        &[(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu vme hypervisor\n",
        )],
        "processor: AMD EPYC, virtual true",
    );
    check(
        &[(
            "proc/cpuinfo",
            "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n",
        )],
        "processor: implementer 0x41 part 0xd0c, virtual false",
    );
    check(
        &[("proc/cpuinfo", "model name :\nflags : nohypervisor")],
        "processor: unknown, virtual false",
    );
}

#[test]
fn an_empty_root_is_no_reason_to_panic() {
    check(
        &[],
        "processor: unknown, virtual false
         quota: None
         cores: None
         two: Some([Cpu(0), Cpu(1)])
         paranoid: None
         mlock: None
         scope: None
         seccomp: None
         perfmon: None
         samplers: []",
    );
}

#[test]
fn the_tightest_quota_counts() {
    let unified = ("proc/self/cgroup", "0::/a/b\n");
    check(
        &[
            unified,
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/cpu.max", "400000 100000\n"),
        ],
        "quota: Some(1.5)",
    );
    // In a container the path is the host's; only the root of the mount is there.
    check(
        &[unified, ("sys/fs/cgroup/cpu.max", "50000 100000\n")],
        "quota: Some(0.5)",
    );
    check(
        &[unified, ("sys/fs/cgroup/cpu.max", "max 100000\n")],
        "quota: None",
    );
    let old = ("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/x\n0::/\n");
    check(
        &[
            old,
            ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us", "200000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ],
        "quota: Some(2.0)",
    );
    check(
        &[("proc/self/cgroup", "garbage\n0:\n::"), unified],
        "quota: None",
    );
}

#[test]
fn siblings_are_avoided_where_there_is_another_core() {
    let topology = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list");
    let [a, b, c, d] = [0, 1, 2, 3].map(topology);
    check(
        &[(&a, "0-1\n"), (&b, "0-1\n"), (&c, "2-3\n"), (&d, "2-3\n")],
        "cores: Some([[Cpu(0), Cpu(1)], [Cpu(2), Cpu(3)]])
         two: Some([Cpu(0), Cpu(2)])",
    );
    check(
        &[(&a, "0,8\n"), (&b, "1,9\n"), (&c, "2,10\n"), (&d, "3,11\n")],
        "cores: Some([])
         two: Some([Cpu(0), Cpu(1)])",
    );
    check(
        &[(&a, "0-3\n"), (&b, "0-3\n"), (&c, "0-3\n"), (&d, "0-3\n")],
        "cores: Some([[Cpu(0), Cpu(1), Cpu(2), Cpu(3)]])
         two: Some([Cpu(0), Cpu(1)])",
    );
    assert_eq!(two_cpus(&[Cpu(5)], None), None);
    assert_eq!(two_cpus(&[], None), None);
}

#[test]
fn settings_of_a_container_and_of_root() {
    check(
        &[
            (
                "proc/self/status",
                "Name:\tx\nCapEff:\t00000000a80425fb\nSeccomp:\t2\n",
            ),
            ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
            ("proc/sys/kernel/perf_event_mlock_kb", "516\n"),
            ("proc/sys/kernel/yama/ptrace_scope", "1\n"),
            ("sys/bus/event_source/devices/ibs_op/type", "9\n"),
        ],
        "paranoid: Some(-1)
         mlock: Some(516)
         scope: Some(1)
         seccomp: Some(true)
         perfmon: Some(false)
         ptrace: Some(false)
         samplers: [Ibs]",
    );
    check(
        &[(
            "proc/self/status",
            "CapEff:\t000001ffffffffff\nSeccomp:\t0\n",
        )],
        "seccomp: Some(false)
         perfmon: Some(true)
         ptrace: Some(true)",
    );
}

#[test]
fn lists_of_processors() {
    for (text, expected) in [
        ("0-2,5", Some(vec![0, 1, 2, 5])),
        ("3\n", Some(vec![3])),
        ("", Some(vec![])),
        ("2-1", None),
        ("0-4294967295", None),
        ("a", None),
    ] {
        let found = parse_cpu_list(text).map(|cpus| cpus.into_iter().map(|cpu| cpu.0).collect());
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn accounts_of_the_scheduler() {
    assert_eq!(
        parse_run_delay("387892 47892 1").map(|delay| delay.as_nanos()),
        Some(47892)
    );
    assert_eq!(parse_run_delay("387892"), None);
    let stat = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 0 2 3 0 0 0 4 0 0\ncpu1 1 1 1 1 1 1 1 1 5 5\ncpu10 0 0 0 0 0 0 0 7";
    let ticks = |cpus| StatTicks::parse(stat, cpus).map(|ticks| (ticks.stolen, ticks.all));
    assert_eq!(ticks([Cpu(0), Cpu(1)]), Some((5, 18)));
    assert_eq!(ticks([Cpu(0), Cpu(2)]), None);
    assert_eq!(
        StatTicks::parse("cpu0 1 2 3\ncpu1 1 2 3", [Cpu(0), Cpu(1)]),
        None
    );
}
