//! `hitm attach`: records a process that already runs, and leaves it running.

use anyhow::Context as _;
use hitm_collect::prove::{AfterWindows, Prove};
use hitm_collect::{AttachOptions, Progress, prove_attach, record_attach};
use hitm_model::{Pid, StopReason};
use hitm_recording::Writer;

use super::interrupt;
use super::planner::FindingsPlanner;
use super::progress::ProgressLine;
use super::prove::{check_rate, prove_options, say_what_was_proved};
use super::run::rate;
use super::show::{TableTo, analyse, check_json, show, stopped};
use super::store::NewRecording;
use crate::cli::AttachArgs;
use crate::exit_codes::Exit;
use crate::output;

/// What comes after windows: the user said how long to record, or nothing is left to do.
pub(crate) const fn after_windows(args: &AttachArgs) -> AfterWindows {
    match args.record.duration {
        Some(_) => AfterWindows::GoOn,
        None => AfterWindows::Stop,
    }
}

/// Attaches to a process, records and reports.
///
/// What comes `after` windows matters only if there are any.
pub(crate) fn attach(args: &AttachArgs, after: AfterWindows) -> anyhow::Result<Exit> {
    check_json(&args.show)?;
    check_rate(args.prove, args.record.rate)?;
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
    let plan_file = file.reader()?;
    let writer = Writer::new(file)
        .context("cannot write the recording (make room, or choose another place: -o FILE)")?;
    let mut progress = ProgressLine::on_stderr();
    let mut to_say = (args.record.duration.is_none() && !args.prove).then(|| {
        format!("hitm: recording process {pid}; Ctrl-C ends the recording, not the process")
    });
    let mut update = |now: &Progress| {
        // Said once it is true: the process may be refused.
        if let Some(line) = to_say.take() {
            output::say(&line);
        }
        progress.update(now);
    };
    let outcome = if args.prove {
        let cpus = hitm_collect::prove::processors_of(pid);
        let mut planner =
            FindingsPlanner::new(plan_file, &args.show, &args.windows, Some(pid), cpus);
        let prove = Prove {
            options: &prove_options(&args.windows, after),
            planner: &mut planner,
        };
        prove_attach(&options, prove, writer, &mut update)
    } else {
        record_attach(&options, writer, &mut update)
    };
    progress.clear();
    let outcome = outcome?;
    say_what_was_proved(&outcome.proved);
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
    let named = !(args.windows.threads.is_empty() && args.windows.progress.is_empty());
    let exit = shown.after(&outcome.reason);
    Ok(exit.proved(&outcome.proved, named, &report))
}
