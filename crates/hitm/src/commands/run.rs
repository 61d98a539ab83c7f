//! `hitm run`: starts a program, records it, reports.

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use hitm_collect::machine::SystemFiles;
use hitm_collect::prove::{AfterWindows, Prove};
use hitm_collect::{Outcome, Progress, Rate, RunOptions, SamplerChoice, prove_run, record_run};
use hitm_model::StopReason;
use hitm_recording::Writer;

use super::interrupt;
use super::planner::FindingsPlanner;
use super::progress::ProgressLine;
use super::prove::{check_rate, prove_options, say_what_was_proved};
use super::show::{TableTo, analyse, check_json, show, stopped};
use super::store::NewRecording;
use crate::cli::{self, RunArgs};
use crate::exit_codes::Exit;
use crate::load::RecordingFile;
use crate::output;

/// Runs a program under the sampler and reports.
///
/// What comes `after` windows matters only if there are any.
pub(crate) fn run(args: &RunArgs, after: AfterWindows) -> anyhow::Result<Exit> {
    check_json(&args.show)?;
    check_rate(args.prove, args.record.rate)?;
    let (outcome, recording) = record(args, after)?;
    if args.no_report {
        return recorded(&outcome.reason, args);
    }
    let mut report = analyse(&recording, &args.show, None)?;
    if let StopReason::WriteFailed(why) = &outcome.reason {
        output::say(&format!(
            "hitm: the recording {} stopped in the middle: {why}; the program ran on without it",
            args.record.output.display()
        ));
        stopped(&mut report, why);
    }
    let shown = show(&report, &args.record.output, &args.show, TableTo::Stderr)?;
    let named = !(args.windows.threads.is_empty() && args.windows.progress.is_empty());
    let exit = shown.after(&outcome.reason);
    Ok(exit.proved(&outcome.proved, named, &report))
}

/// What is left to say where nobody wants a report.
fn recorded(reason: &StopReason, args: &RunArgs) -> anyhow::Result<Exit> {
    if let StopReason::WriteFailed(why) = reason {
        anyhow::bail!(
            "the recording {} stopped in the middle: {why} (make room, or choose another place: -o FILE)",
            args.record.output.display()
        );
    }
    Ok(Exit::Done)
}

fn record(args: &RunArgs, after: AfterWindows) -> anyhow::Result<(Outcome, RecordingFile)> {
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
    let plan_file = file.reader()?;
    let writer = Writer::new(file)
        .context("cannot write the recording (make room, or choose another place: -o FILE)")?;
    let shares_terminal = io::stdout().is_terminal() || io::stderr().is_terminal();
    let mut progress = ProgressLine::beside_program(shares_terminal);
    let mut update = |now: &Progress| progress.update(now);
    let outcome = if args.prove {
        let cpus = hitm_collect::machine::allowed_cpus(&SystemFiles::of_this_machine()).len();
        let mut planner = FindingsPlanner::new(plan_file, &args.show, &args.windows, None, cpus);
        let prove = Prove {
            options: &prove_options(&args.windows, after),
            planner: &mut planner,
        };
        prove_run(&options, prove, writer, &mut update)
    } else {
        record_run(&options, writer, &mut update)
    };
    progress.clear();
    let outcome = outcome?;
    say_what_was_proved(&outcome.proved);
    Ok((outcome, recording))
}

/// The rate that was asked for.
pub(crate) fn rate(hertz: Option<u32>) -> Rate {
    hertz.map_or(Rate::Auto, Rate::Hz)
}
