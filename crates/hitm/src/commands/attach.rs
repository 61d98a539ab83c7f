//! `hitm attach`: records a process that already runs, and leaves it running.

use anyhow::Context as _;
use hitm_collect::{AttachOptions, record_attach};
use hitm_model::{Pid, StopReason};
use hitm_recording::Writer;

use super::interrupt;
use super::progress::ProgressLine;
use super::run::rate;
use super::show::{TableTo, analyse, check_json, show, stopped};
use super::store::NewRecording;
use crate::cli::AttachArgs;
use crate::exit_codes::Exit;
use crate::output;

/// Attaches to a process, records and reports.
pub(crate) fn attach(args: &AttachArgs) -> anyhow::Result<Exit> {
    check_json(&args.show)?;
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
    let mut progress = ProgressLine::on_stderr();
    let mut to_say = args.record.duration.is_none().then(|| {
        format!("hitm: recording process {pid}; Ctrl-C ends the recording, not the process")
    });
    let outcome = record_attach(&options, writer, &mut |now| {
        // Said once it is true: the process may be refused.
        if let Some(line) = to_say.take() {
            output::say(&line);
        }
        progress.update(now);
    });
    progress.clear();
    let outcome = outcome?;
    let alive = (outcome.reason != StopReason::ProgramEnded).then_some(pid);
    let mut report = analyse(&recording, &args.show, alive)?;
    if let StopReason::WriteFailed(why) = &outcome.reason {
        output::say(&format!(
            "hitm: the recording {} stopped in the middle: {why}",
            args.record.output.display()
        ));
        stopped(&mut report, why);
    }
    let shown = show(&report, &args.record.output, &args.show, TableTo::Stderr)?;
    Ok(shown.after(&outcome.reason))
}
