//! `hitm history`: what earlier comparisons said, and whether something changed over commits.

mod load;
mod place;
mod save;
mod store;

use hitm_experiment::History;
use hitm_report::{HistoryTableOptions, history_json, history_table};

pub(super) use self::place::machine_key;
pub(super) use self::store::Store;
use super::found::{self, To};
use crate::cli::HistoryArgs;
use crate::exit_codes::Exit;

/// Shows the history.
pub(crate) fn history(args: &HistoryArgs) -> anyhow::Result<Exit> {
    let path = place::chosen(args.file.as_deref())?;
    let store = Store::open_existing(&path)?;
    let series = store.series(args.row.as_deref(), args.last)?;
    if let Some(name) = args.row.as_ref().filter(|_| series.is_empty()) {
        anyhow::bail!(
            "no row is called {name} in {} (the names: hitm history --file {0})",
            path.display()
        );
    }
    let history = History::of(series);
    let options = HistoryTableOptions {
        plot: args.plot,
        points: args.row.is_some(),
    };
    found::show(
        To::of(args.json.json.as_ref()),
        |out| history_json(&history, out),
        |text: &mut Vec<u8>| history_table(&history, &options, text),
    )?;
    Ok(Exit::Done)
}
