//! The history's rows as series over time.

use std::collections::BTreeMap;

use hitm_experiment::{Better, LogRatio, Point, SeriesKey};
use rusqlite::{Row, params};

use super::store::{Store, cannot};

/// Rows that were measured to a look, and whose sides were comparable or compared by force: the oldest first.
const POINTS: &str = "
SELECT comparison.machine_key, row.name, row.metric, row.unit, row.better, row.effect, row.outcome,
       coalesce(strftime('%Y-%m-%d %H:%M', comparison.saved_at / 1000, 'unixepoch'), 'unknown time'),
       b.command, b.server, b.variables, b.git_commit, coalesce(b.dirty, 0), b.median, coalesce(a.sha256, '')
FROM row
JOIN comparison ON comparison.id = row.comparison
JOIN side AS a ON a.row = row.id AND a.side = 'a'
JOIN side AS b ON b.row = row.id AND b.side = 'b'
WHERE row.effect IS NOT NULL AND b.median > 0 AND row.outcome <> 'refused'
  AND row.ended NOT IN ('failed', 'unusable')
  AND (?1 IS NULL OR row.name = ?1)
ORDER BY comparison.saved_at, row.id";

impl Store {
    /// All series, or those of rows of one name, each with at most its last points.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(super) fn series(
        &self,
        name: Option<&str>,
        last: u32,
    ) -> anyhow::Result<Vec<(SeriesKey, Better, Vec<Point>)>> {
        self.try_series(name, last as usize)
            .map_err(|error| cannot(&self.path, "read", &error))
    }

    fn try_series(
        &self,
        name: Option<&str>,
        last: usize,
    ) -> rusqlite::Result<Vec<(SeriesKey, Better, Vec<Point>)>> {
        let mut statement = self.connection.prepare(POINTS)?;
        let rows = statement.query_map(params![name], point)?;
        let mut series: BTreeMap<(SeriesKey, bool), Vec<Point>> = BTreeMap::new();
        for row in rows {
            let (key, better, point) = row?;
            let points = series.entry((key, better == Better::Higher)).or_default();
            points.push(point);
            // Twice as many before any is moved: memory is bounded, and each point is moved about once.
            if points.len() >= 2 * last {
                points.drain(..points.len() - last);
            }
        }
        Ok(series
            .into_iter()
            .map(|((key, higher), mut points)| {
                points.drain(..points.len().saturating_sub(last));
                let better = if higher {
                    Better::Higher
                } else {
                    Better::Lower
                };
                (key, better, points)
            })
            .collect())
    }
}

fn point(row: &Row<'_>) -> rusqlite::Result<(SeriesKey, Better, Point)> {
    let text = |at: usize| row.get::<_, String>(at);
    let key = SeriesKey {
        machine: text(0)?,
        row: text(1)?,
        metric: text(2)?,
        unit: text(3)?,
        command: command(&text(8)?, &text(9)?, &text(10)?),
    };
    let better = match text(4)?.as_str() {
        "higher" => Better::Higher,
        _ => Better::Lower,
    };
    let point = Point {
        saved: text(7)?,
        commit: row.get(11)?,
        dirty: row.get(12)?,
        value: row.get(13)?,
        effect: LogRatio::from_ln(row.get(5)?),
        base: text(14)?,
        outcome: text(6)?,
    };
    Ok((key, better, point))
}

/// What must be the same in a series: arguments, server, variables, and the programs' names, but not their folders, which
/// change from build to build.
fn command(command: &str, server: &str, variables: &str) -> String {
    let named = |text: &str| -> String {
        let (program, arguments) = text.split_once(' ').unwrap_or((text, ""));
        let name = program.rsplit('/').next().unwrap_or(program);
        format!("{name} {arguments}").trim().to_owned()
    };
    let mut all = named(command);
    if !server.is_empty() {
        all = format!("{all}; server {}", named(server));
    }
    if !variables.is_empty() {
        all = format!("{variables} {all}");
    }
    all
}

#[cfg(test)]
mod tests {
    #[test]
    fn folders_of_programs_do_not_matter_and_arguments_do() {
        let command = super::command;
        assert_eq!(
            command("/old/prog -n 4", "", ""),
            command("new/prog -n 4", "", "")
        );
        assert_ne!(command("prog -n 4", "", ""), command("prog -n 8", "", ""));
        assert_eq!(
            command("/a/prog", "/b/server -p 7", "X=1"),
            "X=1 prog; server server -p 7"
        );
    }
}
