//! Words of the program's memory, read from outside while it runs.

use std::io::IoSliceMut;

use hitm_model::{Nanos, Pid, Reading, Word};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};

use super::accounts::Account;
use crate::clock;

/// The words of a group while a window lasts.
#[derive(Debug)]
pub(super) struct Words<'a> {
    pid: Pid,
    /// Each with the numbers of the threads whose time counts for it.
    words: Vec<(&'a Word, Vec<usize>)>,
    accounts: &'a [Account],
    /// What the threads had used when the window began.
    before: Vec<Nanos>,
    readings: Vec<Vec<Reading>>,
}

impl<'a> Words<'a> {
    /// Words of the process `pid`, each with the numbers of the threads, among `accounts`, whose time counts for it.
    pub(super) fn new(
        pid: Pid,
        words: Vec<(&'a Word, Vec<usize>)>,
        accounts: &'a [Account],
        before: Vec<Nanos>,
    ) -> Self {
        Self {
            pid,
            readings: vec![Vec::new(); words.len()],
            words,
            accounts,
            before,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Reads all words once. One that cannot be read has no reading.
    pub(super) fn read(&mut self) {
        for ((word, threads), readings) in self.words.iter().zip(&mut self.readings) {
            // The time and the word must belong together, so there is nothing but a call between the two.
            let ran = threads.iter().try_fold(Nanos::default(), |sum, &thread| {
                let now = self.accounts.get(thread)?.ran()?;
                Some(sum.plus(now.since(*self.before.get(thread)?)))
            });
            let value = read(self.pid, word);
            let at = clock::now();
            if let Some((ran, value)) = ran.zip(value) {
                readings.push(Reading { at, ran, value });
            }
        }
    }

    /// The readings of each word.
    pub(super) fn into_readings(self) -> Vec<Vec<Reading>> {
        self.readings
    }
}

fn read(pid: Pid, word: &Word) -> Option<u64> {
    let size = usize::from(word.size);
    let mut bytes = [0; 8];
    let buffer = bytes.get_mut(..size)?;
    let remote = RemoteIoVec {
        base: usize::try_from(word.address.0).ok()?,
        len: size,
    };
    let pid = nix::unistd::Pid::from_raw(pid.0.cast_signed());
    let n = process_vm_readv(pid, &mut [IoSliceMut::new(buffer)], &[remote]).ok()?;
    (n == size).then(|| u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use hitm_model::Avma;

    use super::*;

    #[test]
    fn words_of_all_sizes_are_read() {
        let memory = [0x11u8, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88];
        let word = |size| Word {
            thread: None,
            address: Avma(memory.as_ptr() as u64),
            size,
            name: None,
        };
        let pid = Pid(std::process::id());
        for (size, wanted) in [
            (1, Some(0x11)),
            (2, Some(0x2211)),
            (4, Some(0x4433_2211)),
            (8, Some(0x8877_6655_4433_2211)),
            (9, None),
        ] {
            assert_eq!(read(pid, &word(size)), wanted, "{size}");
        }
        let nowhere = Word {
            address: Avma(0),
            ..word(8)
        };
        assert_eq!(read(pid, &nowhere), None);
    }
}
