//! How the cores of this machine are related, and which of them to use.
//!
//! All from sysfs. A virtual machine has there what its hypervisor tells, which need not be the truth.

use std::collections::{BTreeMap, BTreeSet};

use hitm_model::CoreDistance;

use crate::machine::{Cpu, SystemFiles, parse_cpu_list};

/// The processors of a machine, as far as it tells of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Topology(BTreeMap<Cpu, Place>);

/// What one processor has in common with others. Each list has the processor itself.
#[derive(Clone, Debug, Default)]
struct Place {
    core: Option<BTreeSet<Cpu>>,
    cluster: Option<BTreeSet<Cpu>>,
    /// Caches that hold data, by level.
    caches: BTreeMap<u32, BTreeSet<Cpu>>,
    /// -1 and the like where a machine does not tell.
    package: Option<u32>,
}

impl Topology {
    /// What sysfs says about some processors.
    pub(super) fn read(files: &SystemFiles, cpus: &[Cpu]) -> Self {
        let places = cpus.iter().map(|&cpu| (cpu, Place::read(files, cpu)));
        Self(places.collect())
    }

    /// How two different processors are related.
    pub(super) fn distance(&self, a: Cpu, b: Cpu) -> CoreDistance {
        let (Some(place), Some(other)) = (self.0.get(&a), self.0.get(&b)) else {
            return CoreDistance::Unknown;
        };
        // Without it two hardware threads of one core would look like two cores.
        let Some(core) = &place.core else {
            return CoreDistance::Unknown;
        };
        let shares = |level| place.caches.get(&level).is_some_and(|of| of.contains(&b));
        let clustered = place.cluster.as_ref().is_some_and(|of| of.contains(&b));
        if core.contains(&b) {
            CoreDistance::SmtSiblings
        } else if clustered || shares(2) {
            CoreDistance::SameCluster
        } else if place.caches.keys().any(|&level| level > 2 && shares(level)) {
            CoreDistance::SameCache
        } else {
            match (place.package, other.package) {
                (Some(a), Some(b)) if a != b => CoreDistance::OtherPackage,
                // Whether they share a cache is known only if there is word of caches.
                (Some(_), Some(_)) if !place.caches.is_empty() => CoreDistance::SamePackage,
                _ => CoreDistance::Unknown,
            }
        }
    }

    /// How the farthest two of some processors are related.
    pub(super) fn widest(&self, cpus: &[Cpu]) -> CoreDistance {
        let pairs = cpus.iter().enumerate();
        pairs
            .flat_map(|(nth, &a)| cpus.iter().skip(nth + 1).map(move |&b| (a, b)))
            .map(|(a, b)| self.distance(a, b))
            .max()
            .unwrap_or(CoreDistance::Unknown)
    }

    /// One pair of every kind that there is, the nearest first.
    pub(super) fn pairs(&self) -> Vec<[Cpu; 2]> {
        let mut pairs = BTreeMap::new();
        for &a in self.0.keys() {
            for (&b, _) in self.0.range(a..).skip(1) {
                pairs.entry(self.distance(a, b)).or_insert([a, b]);
            }
        }
        pairs.into_values().collect()
    }

    /// `n` processors for as many threads: on cores of their own if there are enough, and near each other, as a scheduler
    /// would put them, but sharing no more than the last cache. `None` if there are fewer.
    pub(super) fn choose(&self, n: usize) -> Option<Vec<Cpu>> {
        let mut left: Vec<Cpu> = self.0.keys().copied().collect();
        let mut chosen: Vec<Cpu> = Vec::new();
        while chosen.len() < n {
            let place = (0..left.len()).min_by_key(|&at| {
                let nearest = |&cpu: &Cpu| nearness(self.distance(cpu, left[at]));
                chosen.iter().map(nearest).max().unwrap_or_default()
            })?;
            chosen.push(left.remove(place));
        }
        chosen.sort();
        Some(chosen)
    }
}

/// The lower, the better.
const fn nearness(distance: CoreDistance) -> u32 {
    match distance {
        CoreDistance::SameCache => 0,
        CoreDistance::SameCluster => 1,
        CoreDistance::SamePackage => 2,
        CoreDistance::Unknown => 3,
        CoreDistance::OtherPackage => 4,
        CoreDistance::SmtSiblings => 5,
    }
}

impl Place {
    fn read(files: &SystemFiles, cpu: Cpu) -> Self {
        let directory = format!("sys/devices/system/cpu/cpu{cpu}");
        let list = |name: &str| {
            let text = files.text(format!("{directory}/{name}"))?;
            parse_cpu_list(&text).filter(|list| list.contains(&cpu))
        };
        let mut caches = BTreeMap::new();
        for index in files.names(format!("{directory}/cache")) {
            let file = |name: &str| format!("cache/{index}/{name}");
            let of_data = files
                .text(format!("{directory}/{}", file("type")))
                .is_none_or(|kind| kind != "Instruction");
            let level = files.number(format!("{directory}/{}", file("level")));
            if let (true, Some(level), Some(shared)) =
                (of_data, level, list(&file("shared_cpu_list")))
            {
                caches.insert(level, shared);
            }
        }
        Self {
            // The second name is the older kernels'.
            core: list("topology/core_cpus_list").or_else(|| list("topology/thread_siblings_list")),
            cluster: list("topology/cluster_cpus_list"),
            caches,
            package: files.number(format!("{directory}/topology/physical_package_id")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A tree of sysfs files from lines `PATH below cpuN: text`, for processors `0..n`.
    fn tree(lines: &str) -> (tempfile::TempDir, SystemFiles) {
        let directory = tempfile::tempdir().unwrap();
        for line in lines.lines().map(str::trim).filter(|it| !it.is_empty()) {
            let (path, text) = line.split_once(": ").unwrap();
            let (cpus, path) = path.split_once('/').unwrap();
            for cpu in parse_cpu_list(cpus).unwrap() {
                let file = directory
                    .path()
                    .join(format!("sys/devices/system/cpu/cpu{cpu}/{path}"));
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, format!("{text}\n")).unwrap();
            }
        }
        let files = SystemFiles::below(directory.path());
        (directory, files)
    }

    fn topology(lines: &str, cpus: u32) -> Topology {
        let (_directory, files) = tree(lines);
        let cpus: Vec<Cpu> = (0..cpus).map(Cpu).collect();
        Topology::read(&files, &cpus)
    }

    /// The pairs of every kind, as text, and what is chosen for two and for three threads.
    fn check(title: &str, lines: &str, n: u32, pairs: &str, chosen: [&[u32]; 2]) {
        let topology = topology(lines, n);
        let words: Vec<String> = topology
            .pairs()
            .into_iter()
            .map(|[a, b]| format!("{a}-{b} {:?}", topology.distance(a, b)))
            .collect();
        assert_eq!(words.join(", "), pairs, "{title}");
        for (n, wanted) in [2, 3].into_iter().zip(chosen) {
            let got = topology.choose(n);
            let got: Option<Vec<u32>> = got.map(|cpus| cpus.iter().map(|it| it.0).collect());
            let wanted = (!wanted.is_empty()).then(|| wanted.to_vec());
            assert_eq!(got, wanted, "{title}");
        }
        for a in 0..n {
            for b in (0..n).filter(|&b| b != a) {
                let both = [(a, b), (b, a)].map(|(a, b)| topology.distance(Cpu(a), Cpu(b)));
                assert_eq!(both[0], both[1], "{title}: {a} {b}");
            }
        }
    }

    /// Two packages of two cores with two hardware threads each, numbered as many servers are.
    const SERVER: &str = "
        0,4/topology/core_cpus_list: 0,4
        1,5/topology/core_cpus_list: 1,5
        2,6/topology/core_cpus_list: 2,6
        3,7/topology/core_cpus_list: 3,7
        0,4/cache/index2/shared_cpu_list: 0,4
        1,5/cache/index2/shared_cpu_list: 1,5
        2,6/cache/index2/shared_cpu_list: 2,6
        3,7/cache/index2/shared_cpu_list: 3,7
        0-7/cache/index2/level: 2
        0,2,4,6/cache/index3/shared_cpu_list: 0,2,4,6
        1,3,5,7/cache/index3/shared_cpu_list: 1,3,5,7
        0-7/cache/index3/level: 3
        0,2,4,6/topology/physical_package_id: 0
        1,3,5,7/topology/physical_package_id: 1";

    #[test]
    fn core_pairs_are_told_apart() {
        check(
            "two packages, hardware threads",
            SERVER,
            8,
            "0-4 SmtSiblings, 0-2 SameCache, 0-1 OtherPackage",
            [&[0, 2], &[0, 1, 2]],
        );
        check(
            "clusters of two cores, by the kernel's word and by their cache",
            "0/topology/thread_siblings_list: 0
             1/topology/thread_siblings_list: 1
             2/topology/thread_siblings_list: 2
             3/topology/thread_siblings_list: 3
             0-1/topology/cluster_cpus_list: 0-1
             2-3/cache/index0/shared_cpu_list: 2-3
             2-3/cache/index0/level: 2
             0-3/cache/index1/shared_cpu_list: 0-3
             0-3/cache/index1/level: 3
             0-3/topology/physical_package_id: 0",
            4,
            "0-1 SameCluster, 0-2 SameCache",
            [&[0, 2], &[0, 1, 2]],
        );
        check(
            "core complexes with a last cache each",
            "0/topology/core_cpus_list: 0
             1/topology/core_cpus_list: 1
             2/topology/core_cpus_list: 2
             0-1/cache/index3/shared_cpu_list: 0-1
             2/cache/index3/shared_cpu_list: 2
             0-2/cache/index3/level: 3
             0-2/topology/physical_package_id: 0",
            3,
            "0-1 SameCache, 0-2 SamePackage",
            [&[0, 1], &[0, 1, 2]],
        );
        check(
            "a guest without caches",
            "0/topology/core_cpus_list: 0
             1/topology/core_cpus_list: 1
             0-1/topology/physical_package_id: 0",
            2,
            "0-1 Unknown",
            [&[0, 1], &[]],
        );
        check(
            "one core",
            "0-1/topology/core_cpus_list: 0-1",
            2,
            "0-1 SmtSiblings",
            [&[0, 1], &[]],
        );
        check("nothing", "", 2, "0-1 Unknown", [&[0, 1], &[]]);
        check("one processor", "", 1, "", [&[], &[]]);
    }

    #[test]
    fn instruction_caches_and_damaged_files_say_nothing() {
        let topology = topology(
            "0/topology/core_cpus_list: 0
             1/topology/core_cpus_list: 1
             0-1/cache/index1/shared_cpu_list: 0-1
             0-1/cache/index1/type: Instruction
             0-1/cache/index1/level: 2
             0-1/cache/index2/shared_cpu_list: x
             0-1/cache/index2/level: 3
             0-1/topology/physical_package_id: -1",
            2,
        );
        assert_eq!(topology.distance(Cpu(0), Cpu(1)), CoreDistance::Unknown);
    }

    #[test]
    fn the_widest_distance_counts_for_a_group() {
        let topology = topology(SERVER, 8);
        let widest = |cpus: &[u32]| {
            let cpus: Vec<Cpu> = cpus.iter().copied().map(Cpu).collect();
            topology.widest(&cpus)
        };
        assert_eq!(widest(&[0, 4]), CoreDistance::SmtSiblings);
        assert_eq!(widest(&[0, 2, 4]), CoreDistance::SameCache);
        assert_eq!(widest(&[0, 1, 2]), CoreDistance::OtherPackage);
    }
}
