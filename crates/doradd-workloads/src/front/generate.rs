//! Writing a log that a generator makes, as `ycsb gen` and `tpcc gen` do.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, Result, bail};

use crate::front::progress;
use crate::front::session::interrupts;
use crate::log::{LogWriter, Record};

/// Records between two looks at the progress and at Ctrl-C.
const STRIDE: u32 = 1 << 14;

/// Writes so many records to a file, or to the standard output if that is `-`.
///
/// # Errors
/// If the file cannot be written in full, or Ctrl-C is pressed; nothing is left then.
pub fn write(out: &Path, count: u32, mut records: impl Iterator<Item = Record>) -> Result<()> {
    let stop = interrupts()?;
    let mut writer = open(out, count)?;
    let bar = progress::bar(Some(count.into()), "generating");
    for number in 0..count {
        if number % STRIDE == 0 {
            bar.set_position(number.into());
            if stop.load(Ordering::Relaxed) {
                bail!("interrupted; nothing is left of {}", out.display());
            }
        }
        let Some(record) = records.next() else { break };
        writer.push(&record)?;
    }
    writer.finish()?;
    bar.finish_and_clear();
    Ok(())
}

fn open(out: &Path, count: u32) -> Result<LogWriter> {
    if out != Path::new("-") {
        return Ok(LogWriter::create(out, count)?);
    }
    let stdout = io::stdout();
    if stdout.is_terminal() {
        bail!(
            "a log is not for terminals: name a file with `-o FILE`, or pipe it into `ycsb -n 2 -`"
        );
    }
    let file = File::from(
        stdout
            .as_fd()
            .try_clone_to_owned()
            .context("the standard output")?,
    );
    Ok(LogWriter::stream(file, "the standard output", count)?)
}
