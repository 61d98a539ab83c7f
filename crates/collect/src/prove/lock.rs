//! Only one hitm has the threads of a process in its hands at a time.
//!
//! Another one would take the first one's masks for the program's own, and leave them behind for ever. So whoever measures
//! a process holds a name that can be held once: the address of a socket in the abstract namespace. The kernel lets go of it
//! with the last descriptor, however its holders end. The guardian holds it too: it may still have to restore when hitm is
//! gone.
//!
//! # Caveats
//! Another hitm is seen only from the same network namespace, and only where the process has the same number, so not from
//! a container to its host.

use std::{
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixListener},
    },
};

use hitm_model::{Pid, Tid};
use nix::fcntl::{FcntlArg, FdFlag, fcntl};

use super::target::Stat;

/// A process is ours to measure as long as this lives, here or in a process that inherited it.
#[derive(Debug)]
pub(super) struct Lock(UnixListener);

impl Lock {
    /// `None` if another hitm, or its guardian, has it.
    pub(super) fn take(pid: Pid) -> io::Result<Option<Self>> {
        // A number is given to another process one day.
        let start = Stat::read(pid, Tid(pid.0)).map_or(0, |stat| stat.start.0);
        let address = SocketAddr::from_abstract_name(format!("hitm-prove-{pid}-{start}"))?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Some(Self(listener))),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether processes that we start from now on hold it as well.
    pub(super) fn share(&self, shared: bool) -> io::Result<()> {
        let flags = if shared {
            FdFlag::empty()
        } else {
            FdFlag::FD_CLOEXEC
        };
        fcntl(&self.0, FcntlArg::F_SETFD(flags))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_is_measured_by_one_at_a_time() {
        let mut process = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid(process.id());
        let lock = Lock::take(pid).unwrap().unwrap();
        assert!(Lock::take(pid).unwrap().is_none());
        assert!(Lock::take(Pid(std::process::id())).unwrap().is_some());

        // One that was started meanwhile goes on holding it, if it was to.
        let mut stranger = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        lock.share(true).unwrap();
        let mut heir = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        lock.share(false).unwrap();
        drop(lock);
        assert!(Lock::take(pid).unwrap().is_none());
        heir.kill().unwrap();
        heir.wait().unwrap();
        // Another test may have started a process while the lock was shared.
        while Lock::take(pid).unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }

        for child in [&mut stranger, &mut process] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
