//! `hitm report`: renders a recording again, without the program.

use super::show::{TableTo, analyse, show};
use crate::cli::ReportArgs;
use crate::exit_codes::Exit;

/// Reports on a recording.
pub(crate) fn report(args: &ReportArgs) -> anyhow::Result<Exit> {
    let report = analyse(&args.file, &args.show, None, Vec::new())?;
    show(&report, &args.file, &args.show, TableTo::Stdout)
}
