//! From a recording to what the user sees: analysis, table, JSON, gate.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use anyhow::Context as _;
use hitm_analysis::{Options, ThreadsBy};
use hitm_model::{Pid, Report};
use hitm_report::TableOptions;

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
    let files = Files::seen_by(alive);
    let options = Options {
        line_size: args.line_size,
        min_share: if args.all { 0.0 } else { args.min_share },
        communication: args.all,
        threads_by: match args.threads_by {
            ThreadsByChoice::Name => ThreadsBy::Name,
            ThreadsByChoice::Tid => ThreadsBy::Tid,
        },
        ..Options::default()
    };
    let mut progress = ProgressLine::analysing();
    let mut report = hitm_analysis::analyse(recording, &files, &options);
    progress.clear();
    report.caveats.extend(
        recording
            .damage()
            .iter()
            .flat_map(hitm_recording::Damage::caveats),
    );
    Ok(report)
}

/// Prints the report on the recording at `path` as asked, and says whether the gate is hit.
pub(super) fn show(
    report: &Report,
    path: &Path,
    args: &ShowArgs,
    table_to: TableTo,
) -> anyhow::Result<Exit> {
    if args.json != Some(None) {
        table(report, path, args, table_to)?;
    }
    match &args.json {
        None => {}
        Some(None) => {
            let mut out = BufWriter::new(io::stdout().lock());
            hitm_report::json(report, &mut out)?;
            out.flush()?;
        }
        Some(Some(path)) => {
            let shown = path.display();
            let file =
                File::create(path).with_context(|| format!("cannot create the report {shown}"))?;
            let mut out = BufWriter::new(file);
            hitm_report::json(report, &mut out)
                .map_err(anyhow::Error::from)
                .and_then(|()| Ok(out.flush()?))
                .with_context(|| format!("cannot write the report {shown}"))?;
        }
    }
    Ok(if hitm_report::gate(report, args.fail_on) {
        Exit::Gate
    } else {
        Exit::Done
    })
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
