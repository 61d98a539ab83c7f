//! A small process that puts the program's threads back where they were if hitm cannot.
//!
//! hitm may be killed in the middle of a window, and nobody else would know what the masks were. So before the first
//! thread is moved, hitm starts itself once more with a socket between the two, and tells this guardian every move before
//! it is made. When the socket closes and not all is restored, the guardian restores it. It does the same when nothing is
//! heard for too long: hitm may have been stopped (Ctrl-Z) with the threads on one processor.
//!
//! The guardian has a session of its own and no ear for the signals that end hitm: it ends when hitm does.

use std::{
    ffi::OsString,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use hitm_model::{Pid, Tid};
use nix::sys::signal::SigSet;

use super::{
    affinity::CpuMask,
    births::Birth,
    ledger::{Ledger, Message},
    lock::Lock,
    target::{Target, Ticks},
};
use crate::machine::Cpu;

/// Starting a process takes milliseconds, unless the machine is very busy.
const READY_WITHIN: Duration = Duration::from_secs(5);

/// How many milliseconds it is waited for a guardian that does not listen fast enough.
const HEARS_WITHIN: u32 = 500;

/// A guardian that was stopped does not answer at all; this is for a busy machine.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// What the guardian says once nothing can keep it from its work, and when it is asked whether it is there.
const READY: u8 = b'!';

/// What the guardian says when it goes to work by itself.
const ALONE: u8 = b'.';

/// What hitm says to hear whether the guardian can do its work.
const PING: &str = "ping";

/// What hitm says when it needs no guardian any more.
const DONE: &str = "done";

/// The guardian, as hitm sees it.
#[derive(Debug)]
pub(super) struct Guardian {
    process: Child,
    socket: UnixStream,
}

/// The guardian is not there any more: nothing may be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gone;

impl Guardian {
    /// Starts it: `command` is a program that calls [`guardian`] and its arguments. It restores all when it hears nothing
    /// for `patience`, and holds the locks until it ends.
    pub(super) fn start(
        command: &[OsString],
        locks: &[Lock],
        patience: Duration,
    ) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let (socket, theirs) = UnixStream::pair()?;
        let share = |shared| locks.iter().try_for_each(|lock| lock.share(shared));
        share(true)?;
        let process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        share(false)?;
        let process = process?;
        let mut guardian = Self { process, socket };
        guardian.socket.set_read_timeout(Some(READY_WITHIN))?;
        let mut said = [0];
        guardian.socket.read_exact(&mut said)?;
        if said != [READY] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // From now on nobody waits for it for long: one that reads no more is as good as gone.
        guardian.socket.set_nonblocking(true)?;
        guardian.say(&format!("patience {}", patience.as_millis()))?;
        Ok(guardian)
    }

    /// Whether it still watches. What it says before it acts by itself, and the end of the socket, mean no.
    pub(super) fn is_there(&mut self) -> bool {
        let silent = matches!(
            self.socket.read(&mut [0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock
        );
        silent && matches!(self.process.try_wait(), Ok(None))
    }

    /// Whether it can do its work now. One that was stopped is there, but of no use.
    pub(super) fn answers(&mut self) -> bool {
        if !self.is_there() || self.say(PING).is_err() {
            return false;
        }
        let mut said = [0];
        let heard = self.socket.set_nonblocking(false).is_ok()
            && self.socket.set_read_timeout(Some(ANSWERS_WITHIN)).is_ok()
            && self.socket.read_exact(&mut said).is_ok();
        // Whatever comes too late is taken for its end by the next look.
        self.socket.set_nonblocking(true).is_ok() && heard && said == [READY]
    }

    /// Tells it what will be done next.
    pub(super) fn tell(&mut self, messages: &[Message]) -> Result<(), Gone> {
        if !self.is_there() {
            return Err(Gone);
        }
        let lines: Vec<String> = messages.iter().map(line).collect();
        self.say(&lines.join("\n")).map_err(|_| Gone)
    }

    /// In one piece: half a line is not heard.
    fn say(&mut self, lines: &str) -> io::Result<()> {
        let text = format!("{lines}\n");
        let mut left = text.as_bytes();
        let mut patience = HEARS_WITHIN;
        while !left.is_empty() {
            match self.socket.write(left) {
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Thousands of births are more than the socket holds.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        let _ = self.say(DONE);
        let _ = self.socket.shutdown(std::net::Shutdown::Write);
        // It ends at once, or has ended.
        for _ in 0..100 {
            if !matches!(self.process.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        // One that was stopped would hold the locks. All is restored by now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the guardian process does: to be called by a process that hitm started for it, with the socket as its standard
/// input. Returns when hitm is done or gone and all is restored.
///
/// # Errors
/// If the standard input is no socket of hitm's.
pub fn guardian() -> io::Result<()> {
    // No signal that is meant for hitm or the terminal ends the one who has to clean up.
    SigSet::all().thread_block()?;
    // Fails only for the leader of a group, which a process that was started by another one is not.
    let _ = nix::unistd::setsid();
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    (&socket).write_all(&[READY])?;
    if let Some(mut ledger) = listen(&socket) {
        // hitm may only have been stopped: when it goes on, it must not take what it finds for the program's doing.
        let _ = (&socket).write_all(&[ALONE]);
        ledger.restore();
    }
    Ok(())
}

/// What is to be restored when hitm has gone silent; nothing if it is done.
fn listen(socket: &UnixStream) -> Option<Ledger> {
    let mut ledger = Ledger::default();
    let mut lines = BufReader::new(socket);
    let mut text = String::new();
    loop {
        text.clear();
        match lines.read_line(&mut text) {
            // A line that was cut off is of a move that was not made: it is told as a whole before.
            Ok(n) if n > 0 && text.ends_with('\n') => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            _ => return Some(ledger),
        }
        let words = text.trim_end();
        if words == DONE {
            return None;
        }
        if words == PING {
            // Whether hitm still listens is seen by what it says next.
            let _ = (&*socket).write_all(&[READY]);
        } else if let Some(millis) = words.strip_prefix("patience ") {
            let patience = millis.parse().ok().map(Duration::from_millis);
            // Without it nothing but the end of the socket is noticed.
            let _ = socket.set_read_timeout(patience.filter(|patience| !patience.is_zero()));
        } else if let Some(message) = parse(words) {
            ledger.apply(&message);
        }
    }
}

/// In the place of a number.
const UNKNOWN: &str = "-";

fn line(message: &Message) -> String {
    match message {
        Message::Thread(Target { pid, tid, start }, original) => {
            format!("thread {pid} {tid} {} {original}", start.0)
        }
        Message::Placed(tid, cpu, at) => format!("placed {tid} {cpu} {}", at.0),
        Message::Born(Birth {
            pid,
            tid,
            parent,
            at,
        }) => {
            let parent = parent.map_or_else(|| UNKNOWN.into(), |parent| parent.to_string());
            format!("born {pid} {tid} {parent} {}", at.0)
        }
        Message::Ended(tid) => format!("ended {tid}"),
        Message::Restored => "restored".into(),
    }
}

fn parse(line: &str) -> Option<Message> {
    let mut words = line.split(' ');
    let kind = words.next()?;
    let mut word = || words.next();
    Some(match kind {
        "thread" => {
            let target = Target {
                pid: Pid(word()?.parse().ok()?),
                tid: Tid(word()?.parse().ok()?),
                start: Ticks(word()?.parse().ok()?),
            };
            Message::Thread(target, CpuMask::parse(word()?)?)
        }
        "placed" => Message::Placed(
            Tid(word()?.parse().ok()?),
            Cpu(word()?.parse().ok()?),
            Ticks(word()?.parse().ok()?),
        ),
        "born" => Message::Born(Birth {
            pid: Pid(word()?.parse().ok()?),
            tid: Tid(word()?.parse().ok()?),
            parent: match word()? {
                UNKNOWN => None,
                parent => Some(Tid(parent.parse().ok()?)),
            },
            at: Ticks(word()?.parse().ok()?),
        }),
        "ended" => Message::Ended(Tid(word()?.parse().ok()?)),
        "restored" => Message::Restored,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<Message> {
        let mask = CpuMask::parse("0-3,8").unwrap();
        let target = Target {
            pid: Pid(7),
            tid: Tid(8),
            start: Ticks(u64::MAX),
        };
        vec![
            Message::Thread(target, mask),
            Message::Placed(Tid(8), Cpu(3), Ticks(99)),
            Message::Born(Birth {
                pid: Pid(12),
                tid: Tid(13),
                parent: Some(Tid(8)),
                at: Ticks(101),
            }),
            Message::Born(Birth {
                pid: Pid(14),
                tid: Tid(14),
                parent: None,
                at: Ticks(102),
            }),
            Message::Ended(Tid(13)),
            Message::Restored,
        ]
    }

    /// All but the last one.
    fn told() -> Vec<Message> {
        let mut messages = messages();
        messages.pop();
        messages
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for message in messages() {
            assert_eq!(parse(&line(&message)), Some(message));
        }
        for bad in [
            "",
            "thread 1 2",
            "placed 1 x 3",
            "nonsense 1",
            "born 1 2 3",
            "born 1 2 x 3",
            "ended",
            "thread 1 2 3 ",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_was_told_is_to_be_restored_unless_hitm_is_done() {
        let listened = |end: &str| {
            let (mut hitm, guardian) = UnixStream::pair().unwrap();
            for message in told() {
                writeln!(hitm, "{}", line(&message)).unwrap();
            }
            hitm.write_all(end.as_bytes()).unwrap();
            drop(hitm);
            listen(&guardian)
        };
        let mut wanted = Ledger::default();
        told().iter().for_each(|it| wanted.apply(it));
        assert_eq!(listened(""), Some(wanted.clone()));
        assert_eq!(listened("placed 8 1"), Some(wanted));
        assert_eq!(listened("restored\n"), Some(Ledger::default()));
        assert_eq!(listened("done\n"), None);
    }

    #[test]
    fn it_answers_when_it_is_asked() {
        let (mut hitm, guardian) = UnixStream::pair().unwrap();
        writeln!(hitm, "{PING}\n{DONE}").unwrap();
        assert_eq!(listen(&guardian), None);
        let mut said = [0];
        hitm.read_exact(&mut said).unwrap();
        assert_eq!(said, [READY]);
    }

    #[test]
    fn silence_is_as_bad_as_an_end() {
        let (mut hitm, guardian) = UnixStream::pair().unwrap();
        writeln!(hitm, "patience 1").unwrap();
        assert_eq!(listen(&guardian), Some(Ledger::default()));
    }
}
