//! The processors that a single thread of any process may use: read, and set.
//!
//! The mask is read from `/proc`, which has it whole: `sched_getaffinity` leaves out processors that are offline now, and
//! a mask that is put back without them would not be the one that was there. Masks may be longer than the C library's
//! `CPU_SETSIZE`.
//!
//! # Caveats
//! A thread whose mask was never set follows its cpuset when that grows; one whose mask was set, also by us and to what
//! it was, stays in that mask. No call undoes this.

use std::{collections::BTreeSet, fmt, fs, io};

use hitm_model::{Pid, Tid};
use nix::errno::Errno;

use crate::machine::{Cpu, parse_cpu_list};

/// Processors that a thread may use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct CpuMask(BTreeSet<Cpu>);

impl CpuMask {
    /// One processor only.
    pub(super) fn only(cpu: Cpu) -> Self {
        Self(BTreeSet::from([cpu]))
    }

    /// A list as the kernel writes it: `0-3,8`.
    pub(super) fn parse(list: &str) -> Option<Self> {
        parse_cpu_list(list)
            .map(Self)
            .filter(|mask| !mask.is_empty())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The processor, if it is only one.
    pub(super) fn single(&self) -> Option<Cpu> {
        let mut cpus = self.0.iter();
        let first = cpus.next().copied();
        first.filter(|_| cpus.next().is_none())
    }

    pub(super) fn cpus(&self) -> impl Iterator<Item = Cpu> + '_ {
        self.0.iter().copied()
    }

    pub(super) fn union(&self, other: &Self) -> Self {
        Self(&self.0 | &other.0)
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }

    pub(super) fn without(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    /// As the kernel takes it.
    fn words(&self) -> Vec<u64> {
        let last = self.0.last().map_or(0, |cpu| cpu.0 as usize);
        let mut words = vec![0; last / 64 + 1];
        for cpu in &self.0 {
            words[cpu.0 as usize / 64] |= 1 << (cpu.0 % 64);
        }
        words
    }
}

impl FromIterator<Cpu> for CpuMask {
    fn from_iter<I: IntoIterator<Item = Cpu>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
    }
}

/// The form that [`CpuMask::parse`] reads.
impl fmt::Display for CpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.cpus().map(|cpu| cpu.0).peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

/// The processors that a thread may use.
pub(super) fn read(pid: Pid, tid: Tid) -> io::Result<CpuMask> {
    let status = fs::read(format!("/proc/{pid}/task/{tid}/status"))?;
    parse_status(&String::from_utf8_lossy(&status)).ok_or(io::ErrorKind::InvalidData.into())
}

fn parse_status(status: &str) -> Option<CpuMask> {
    // The name, which comes first, may contain anything but a new line.
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    CpuMask::parse(list)
}

/// Sets the processors that a thread may use. The kernel leaves out those that its cpuset forbids, and refuses if none is
/// left.
pub(super) fn set(tid: Tid, mask: &CpuMask) -> nix::Result<()> {
    set_number(tid.0.cast_signed(), mask)
}

/// Sets the processors that the calling thread may use.
pub(super) fn set_own(mask: &CpuMask) -> nix::Result<()> {
    set_number(0, mask)
}

#[expect(
    unsafe_code,
    reason = "the safe wrapper takes masks of a fixed length only"
)]
fn set_number(tid: i32, mask: &CpuMask) -> nix::Result<()> {
    let words = mask.words();
    // SAFETY: the pointer is to so many bytes, which the call only reads; the kernel takes any multiple of a word.
    let result =
        unsafe { libc::sched_setaffinity(tid, size_of_val(&words[..]), words.as_ptr().cast()) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_written_as_they_are_read() {
        for list in ["0", "0-3,8,10-11", "1,3,5", "1023-1025,65535"] {
            let mask = CpuMask::parse(list).unwrap();
            assert_eq!(mask.to_string(), list);
        }
        for bad in ["", "3-1", "x", "0-99999999"] {
            assert_eq!(CpuMask::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn processors_are_bits_beyond_the_length_of_cpu_set_t_too() {
        assert_eq!(CpuMask::parse("0,63-64").unwrap().words(), [1 << 63 | 1, 1]);
        let far = CpuMask::only(Cpu(5000)).words();
        assert_eq!((far.len(), far[78]), (79, 1 << (5000 - 78 * 64)));
    }

    #[test]
    fn a_name_in_the_status_is_no_mask() {
        let status = "Name:\tCpus_allowed_list: 7\nCpus_allowed:\t3\nCpus_allowed_list:\t0-1\n";
        assert_eq!(parse_status(status), CpuMask::parse("0-1"));
    }

    #[test]
    fn the_own_mask_is_set_and_read() {
        std::thread::spawn(|| {
            let (pid, tid) = (Pid(std::process::id()), nix::unistd::gettid());
            let tid = Tid(tid.as_raw().cast_unsigned());
            let before = read(pid, tid).unwrap();
            let one = CpuMask::only(before.cpus().next().unwrap());
            set(tid, &one).unwrap();
            assert_eq!(read(pid, tid).unwrap(), one);
            // Words that reach beyond this machine's processors are no error.
            set(tid, &before.union(&CpuMask::only(Cpu(9000)))).unwrap();
            assert_eq!(read(pid, tid).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
