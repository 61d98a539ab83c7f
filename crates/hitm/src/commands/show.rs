//! From a recording to what the user sees: analysis, table, JSON, gate.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hitm_analysis::{Options, ThreadsBy};
use hitm_model::{Caveat, Pid, Report, RunMode};
use hitm_report::TableOptions;

use super::found::{self, To};
use super::progress::ProgressLine;
use crate::cli::{ShowArgs, ThreadsByChoice};
use crate::exit_codes::Exit;
use crate::load::{Files, RecordingFile};
use crate::output;

/// Where the table goes: the stream that is not the program's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TableTo {
    Stdout,
    Stderr,
}

/// Analyses a recording.
///
/// `alive` is the recorded process if it still runs: its binaries are then read as it sees them.
pub(super) fn analyse(
    recording: &RecordingFile,
    args: &ShowArgs,
    alive: Option<Pid>,
) -> anyhow::Result<Report> {
    Ok(analyse_by(recording, &analysis_options(args), alive))
}

/// The same, by options of one's own.
pub(super) fn analyse_by(
    recording: &RecordingFile,
    options: &Options,
    alive: Option<Pid>,
) -> Report {
    let files = Files::seen_by(alive);
    let mut progress = ProgressLine::analysing();
    let mut report = hitm_analysis::analyse(recording, &files, options);
    progress.clear();
    report.caveats.extend(recording.caveats());
    blame_no_sample_on_what_it_was(&mut report);
    report
}

/// How to analyse for what is to be shown.
pub(super) fn analysis_options(args: &ShowArgs) -> Options {
    Options {
        line_size: args.line_size,
        min_share: if args.all { 0.0 } else { args.min_share },
        communication: args.all,
        threads_by: match args.threads_by {
            ThreadsByChoice::Name => ThreadsBy::Name,
            ThreadsByChoice::Tid => ThreadsBy::Tid,
        },
        ..Options::default()
    }
}

/// Says in the report that the recording could not be written any further.
pub(super) fn stopped(report: &mut Report, why: &str) {
    // It says why there is no end, which the recording itself can no longer tell.
    report.caveats.retain(|caveat| {
        !matches!(
            caveat,
            Caveat::RecordingTruncated | Caveat::RecordingStopped { .. }
        )
    });
    report
        .caveats
        .push(Caveat::RecordingStopped { why: why.into() });
    blame_no_sample_on_what_it_was(report);
}

/// That there is no sample is the program's doing only if the recording is whole and the program could be sampled.
fn blame_no_sample_on_what_it_was(report: &mut Report) {
    let not_whole = report.caveats.iter().any(|caveat| {
        matches!(
            caveat,
            Caveat::RecordingTruncated
                | Caveat::RecordingDamaged { .. }
                | Caveat::RecordingStopped { .. }
        )
    });
    let unreadable = || {
        let run = report.run.as_ref().filter(|run| run.mode == RunMode::Run)?;
        let program = on_path(run.command.first()?)?;
        let error = File::open(&program).err()?;
        (error.kind() == io::ErrorKind::PermissionDenied).then(|| Caveat::ProgramUnreadable {
            path: program.display().to_string(),
        })
    };
    for at in (0..report.caveats.len()).rev() {
        if report.caveats[at] != Caveat::NoSamples {
            continue;
        }
        if not_whole {
            report.caveats.remove(at);
        } else if let Some(why) = unreadable() {
            report.caveats[at] = why;
        }
    }
}

/// The file that a command's first word means.
fn on_path(word: &str) -> Option<PathBuf> {
    if word.contains('/') {
        return Some(word.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(word))
        .find(|file| file.is_file())
}

/// Refuses a JSON file that cannot be written, before the time of a run is spent.
pub(super) fn check_json(args: &ShowArgs) -> anyhow::Result<()> {
    let Some(path) = args.json_file() else {
        return Ok(());
    };
    let created = File::options().write(true).create_new(true).open(path);
    let checked = match created {
        // Only tried: a run that does not start leaves no empty report behind.
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::metadata(path) {
            // Opening a pipe would wait for its reader.
            Ok(metadata) if metadata.is_file() || metadata.is_dir() => {
                File::options().write(true).open(path).map(drop)
            }
            _ => Ok(()),
        },
        Err(error) => Err(error),
    };
    checked.with_context(|| cannot_create(path))
}

fn cannot_create(path: &Path) -> String {
    format!(
        "cannot create the report {} (give another place: --json=FILE)",
        path.display()
    )
}

/// Prints the report on the recording at `path` as asked, and says whether the gate is hit.
pub(super) fn show(
    report: &Report,
    path: &Path,
    args: &ShowArgs,
    table_to: TableTo,
) -> anyhow::Result<Exit> {
    let shown = match args.json_on_stdout() {
        true => json_to_stdout(report),
        false => table(report, path, args, table_to),
    };
    match shown {
        // That nobody reads it any more does not change what was found: the gate still holds.
        Err(error) if output::is_broken_pipe(&error) => {}
        shown => shown?,
    }
    if let Some(path) = args.json_file() {
        found::document(To::File(path), "--json", |out| {
            hitm_report::json(report, out)
        })?;
    }
    if hitm_report::gate(report, args.fail_on) {
        return Ok(Exit::Gate);
    }
    if let Some(why) = hitm_report::cannot_judge(report, args.fail_on) {
        output::say(&format!("hitm: --fail-on cannot be judged: {why}"));
        return Ok(Exit::Error);
    }
    Ok(Exit::Done)
}

fn json_to_stdout(report: &Report) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    hitm_report::json(report, &mut out)?;
    Ok(out.flush()?)
}

fn table(report: &Report, path: &Path, args: &ShowArgs, to: TableTo) -> anyhow::Result<()> {
    let recording = path.to_string_lossy();
    let options = |width| TableOptions {
        color: true,
        width,
        top: args.top,
        all: args.all,
        recording: Some(&recording),
    };
    // The text is made whole and written at once, so that a program that still prints does not tear it.
    let mut text = Vec::new();
    match to {
        TableTo::Stdout => {
            hitm_report::table(report, &options(output::width(&io::stdout())), &mut text)?;
            anstream::stdout().lock().write_all(&text)?;
        }
        TableTo::Stderr => {
            hitm_report::table(report, &options(output::width(&io::stderr())), &mut text)?;
            anstream::stderr().lock().write_all(&text)?;
        }
    }
    Ok(())
}
