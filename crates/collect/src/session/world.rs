//! What a session asks about the running processes.
//!
//! Everything may be refused or gone at any moment, so every answer is optional.

use hitm_model::{Avma, BuildId, Mapping, Nanos, Pid, Tid};

use super::stopped::Stopped;

/// Where a thread that is not running stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Its stack pointer.
    pub sp: Avma,
    /// The instruction behind its system call.
    pub ip: Avma,
}

/// The running processes, as a session sees them.
pub trait World {
    /// Now, on the clock of the samples.
    fn now(&self) -> Nanos;

    /// What is mapped in a process, without build-ids; empty when it is gone.
    fn mappings(&self, pid: Pid) -> Vec<Mapping>;

    /// The threads of a process; empty when it is gone.
    fn threads(&self, pid: Pid) -> Vec<Tid>;

    /// A thread's name.
    fn thread_name(&self, pid: Pid, tid: Tid) -> Option<String>;

    /// The build-id of the file that is mapped there.
    fn build_id(&mut self, pid: Pid, mapping: &Mapping) -> Option<BuildId>;

    /// Copies memory of a process; how many bytes at the start of `buffer` are valid.
    fn read(&self, pid: Pid, at: Avma, buffer: &mut [u8]) -> usize;

    /// Where a sleeping thread stands; `None` also while it runs.
    fn standing(&self, pid: Pid, tid: Tid) -> Option<Standing>;

    /// All registers of a thread that sleeps where it does not notice that it is stopped for them; else `None`.
    fn registers(&self, pid: Pid, tid: Tid) -> Option<Stopped>;

    /// Up to `len` bytes of the file that is mapped there, from an offset in the file.
    fn file(&self, pid: Pid, mapping: &Mapping, offset: u64, len: usize) -> Option<Vec<u8>>;
}
