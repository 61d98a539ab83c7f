//! `hitm run`: starts a program, records it, reports.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use hitm_collect::{Outcome, Rate, RunOptions, SamplerChoice, record_run};
use hitm_model::StopReason;
use hitm_recording::Writer;

use super::interrupt;
use super::progress::ProgressLine;
use super::show::{TableTo, analyse, check_json, show, stopped};
use super::store::NewRecording;
use crate::cli::{self, RunArgs};
use crate::exit_codes::Exit;
use crate::load::RecordingFile;
use crate::output;

/// Runs a program under the sampler and reports.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    check_json(&args.show)?;
    let (outcome, recording) = record(args)?;
    let mut report = analyse(&recording, &args.show, None)?;
    if let StopReason::WriteFailed(why) = &outcome.reason {
        output::say(&format!(
            "hitm: the recording {} stopped in the middle: {why}; the program ran on without it",
            args.record.output.display()
        ));
        stopped(&mut report, why);
    }
    let shown = show(&report, &args.record.output, &args.show, TableTo::Stderr)?;
    Ok(shown.after(&outcome.reason))
}

fn record(args: &RunArgs) -> anyhow::Result<(Outcome, RecordingFile)> {
    let interrupt = interrupt::flag()?;
    let environment: Vec<_> = std::env::vars_os().collect();
    let options = RunOptions {
        command: &args.command,
        environment: &environment,
        rate: rate(args.record.rate),
        sampler: match args.sampler {
            cli::SamplerChoice::Auto => SamplerChoice::Auto,
            cli::SamplerChoice::Perf => SamplerChoice::Perf,
            cli::SamplerChoice::Preload => SamplerChoice::Preload,
        },
        duration: args.record.duration,
        child_stdout_to_stderr: args.show.json_on_stdout(),
        interrupt: &interrupt,
    };
    let file = NewRecording::create(&args.record.output)?;
    let recording = file.reader()?;
    let writer = Writer::new(file)
        .context("cannot write the recording (make room, or choose another place: -o FILE)")?;
    let shares_terminal = io::stdout().is_terminal() || io::stderr().is_terminal();
    let mut progress = ProgressLine::beside_program(shares_terminal);
    let outcome = record_run(&options, writer, &mut |now| progress.update(now));
    progress.clear();
    Ok((outcome?, recording))
}

/// The rate that was asked for.
pub(crate) fn rate(hertz: Option<u32>) -> Rate {
    hertz.map_or(Rate::Auto, Rate::Hz)
}
