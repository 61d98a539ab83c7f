//! How much memory there is, read from files like the kernel's.

use std::fs;
use std::path::Path;

use doradd_workloads::memory::{Available, Bytes, available, check as check_memory};
use tempfile::TempDir;

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn check(files: &[(&str, &str)], expected: Option<(u64, &str)>) {
    let dir = TempDir::new().unwrap();
    for (file, text) in files {
        put(dir.path(), file, text);
    }
    let found = available(dir.path());
    let (bytes, limit) = match &found {
        Some(Available { bytes, limit }) => (Some(bytes.0), limit.as_str()),
        None => (None, ""),
    };
    assert_eq!(bytes, expected.map(|(bytes, _)| bytes), "{files:?}");
    let expected = expected.map_or("", |(_, limit)| limit);
    assert!(
        limit.ends_with(expected),
        "{limit} does not end in {expected}"
    );
}

const MEMINFO: (&str, &str) = (
    "proc/meminfo",
    "MemTotal:  2000 kB\nMemAvailable:    1000 kB\n",
);

#[test]
fn the_least_of_what_the_machine_and_the_groups_have_counts() {
    check(&[], None);
    check(&[("proc/meminfo", "MemAvailable: what\n")], None);
    check(&[MEMINFO], Some((1_024_000, "MemAvailable of the machine")));
    // Version 2: the group of the process and those above it; file pages can be dropped.
    check(
        &[
            MEMINFO,
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "100\n"),
            ("sys/fs/cgroup/a/memory.max", "5000\n"),
            ("sys/fs/cgroup/a/memory.current", "4000\n"),
            (
                "sys/fs/cgroup/a/memory.stat",
                "anon 1\ninactive_file 2500\n",
            ),
        ],
        Some((3500, "sys/fs/cgroup/a/memory.max")),
    );
    // Version 1, in a container: the path is that of outside, and only the top is mounted.
    check(
        &[
            MEMINFO,
            (
                "proc/self/cgroup",
                "5:cpu,cpuacct:/x\n4:memory:/docker/123\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "9500\n"),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "inactive_file 1\ntotal_inactive_file 700\n",
            ),
        ],
        Some((200, "sys/fs/cgroup/memory/memory.limit_in_bytes")),
    );
    // A limit that is none.
    check(
        &[
            MEMINFO,
            ("proc/self/cgroup", "4:memory:/\n"),
            (
                "sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n"),
        ],
        Some((1_024_000, "MemAvailable of the machine")),
    );
    // Usage above the limit.
    check(
        &[
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/memory.max", "5\n"),
            ("sys/fs/cgroup/memory.current", "9\n"),
        ],
        Some((0, "sys/fs/cgroup/memory.max")),
    );
}

#[test]
fn what_cannot_fit_is_refused_with_the_size_and_the_remedy() {
    let said = check_memory(Bytes(1 << 60), "tables".to_owned(), "take less")
        .unwrap_err()
        .to_string();
    assert!(said.contains("tables need 1152921504.7 GB, and "), "{said}");
    assert!(said.ends_with("take less, or free memory"), "{said}");
    assert!(check_memory(Bytes(u64::MAX), String::new(), "").is_err());
    assert_eq!(check_memory(Bytes(1), String::new(), ""), Ok(()));
}
