//! How many processors' worth of time the control groups around this process grant.
//!
//! Containers are often limited by a quota rather than by a set of processors: then eight threads run on eight
//! processors, but only for a part of each period, and seldom side by side.

use super::SystemFiles;

/// The tightest CPU quota above this process, in processors; `None` where nothing limits it or nothing tells.
#[must_use]
pub fn cpu_quota(files: &SystemFiles) -> Option<f64> {
    let groups = files.text("proc/self/cgroup")?;
    groups
        .lines()
        .filter_map(|line| {
            // `number:controllers:path`; the unified hierarchy has number 0 and no controllers.
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            if number == "0" && controllers.is_empty() {
                let mounts = ["sys/fs/cgroup", "sys/fs/cgroup/unified"];
                least(mounts.iter().flat_map(|mount| {
                    with_ancestors(path).filter_map(move |group| {
                        parse_cpu_max(&files.text(format!("{mount}{group}/cpu.max"))?)
                    })
                }))
            } else if controllers.split(',').any(|controller| controller == "cpu") {
                let mounts = ["sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"];
                least(mounts.iter().flat_map(|mount| {
                    with_ancestors(path).filter_map(move |group| {
                        let number =
                            |name: &str| files.number::<f64>(format!("{mount}{group}/{name}"));
                        quota_of(number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
                    })
                }))
            } else {
                None
            }
        })
        .min_by(f64::total_cmp)
}

/// The two numbers of `cpu.max`, as processors; `None` for `max`.
#[must_use]
pub fn parse_cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_ascii_whitespace();
    quota_of(words.next()?.parse().ok()?, words.next()?.parse().ok()?)
}

fn quota_of(quota: f64, period: f64) -> Option<f64> {
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn least(quotas: impl Iterator<Item = f64>) -> Option<f64> {
    quotas.min_by(f64::total_cmp)
}

/// `/a/b`, `/a` and the empty path: in a container the path may be the host's, so that only the root is there.
fn with_ancestors(path: &str) -> impl Iterator<Item = &str> {
    let start = path.trim_end_matches('/');
    std::iter::successors(Some(start), |path| Some(path.rsplit_once('/')?.0))
}
