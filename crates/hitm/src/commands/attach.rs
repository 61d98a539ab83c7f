//! `hitm attach`: records a process that already runs, and leaves it running.

use anyhow::Context as _;
use hitm_collect::{AttachOptions, record_attach};
use hitm_model::{Pid, StopReason};
use hitm_recording::Writer;

use super::interrupt;
use super::progress::ProgressLine;
use super::run::rate;
use super::show::{TableTo, analyse, show};
use super::store::NewRecording;
use crate::cli::AttachArgs;
use crate::exit_codes::Exit;
use crate::output;

/// Attaches to a process, records and reports.
pub(crate) fn attach(args: &AttachArgs) -> anyhow::Result<Exit> {
    let interrupt = interrupt::flag()?;
    let pid = Pid(args.pid);
    let options = AttachOptions {
        pid,
        rate: rate(args.record.rate),
        duration: args.record.duration,
        interrupt: &interrupt,
    };
    let file = NewRecording::create(&args.record.output)?;
    let recording = file.reader()?;
    let writer = Writer::new(file)
        .context("cannot write the recording (make room, or choose another place: -o FILE)")?;
    if args.record.duration.is_none() {
        output::say(&format!(
            "hitm: recording process {pid}; Ctrl-C ends the recording, not the process"
        ));
    }
    let mut progress = ProgressLine::on_stderr();
    let outcome = record_attach(&options, writer, &mut |now| progress.update(now));
    progress.clear();
    let outcome = outcome?;
    if let StopReason::WriteFailed(why) = &outcome.reason {
        output::say(&format!(
            "hitm: the recording {} stopped in the middle: {why}",
            args.record.output.display()
        ));
    }
    let alive = (outcome.reason != StopReason::ProgramEnded).then_some(pid);
    let report = analyse(&recording, &args.show, alive, Vec::new())?;
    show(&report, &args.record.output, &args.show, TableTo::Stderr)
}
