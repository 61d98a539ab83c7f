//! `hitm report`: renders a recording again, without the program.

use super::show::{TableTo, analyse, check_json, show};
use crate::cli::ReportArgs;
use crate::exit_codes::Exit;
use crate::load::RecordingFile;

/// Reports on a recording.
pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<Exit> {
    check_json(&args.show)?;
    let recording = RecordingFile::open(&args.file)?;
    let report = analyse(&recording, &args.show, None)?;
    show(&report, &args.file, &args.show, TableTo::Stdout)
}
