//! What came of it, as `--json` prints it; its schema is collect.schema.json, and the twin in C keeps to it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{Layout, Op};
use crate::machine::Machine;
use crate::measure::{Job, Run};

/// The version of the document. It grows when a value goes or changes its meaning.
pub(crate) const VERSION: u32 = 1;

/// What was counted, and how long it took.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "collect")]
pub(crate) struct Document {
    /// Always `collect`.
    #[schemars(extend("const" = "collect"))]
    pub(crate) schema: &'static str,
    /// Of this format.
    #[schemars(extend("const" = VERSION))]
    pub(crate) version: u32,
    /// Which of the twins.
    pub(crate) program: Program,
    /// Where the counters were.
    pub(crate) layout: Layout,
    /// How one was counted, as asked for.
    pub(crate) op: Op,
    /// Whether each increment had a lock prefix.
    pub(crate) locked: bool,
    /// The counts of all threads together, in each run; their sum was right.
    pub(crate) total: u64,
    /// Whether each thread was put on a processor of its own.
    pub(crate) pinned: bool,
    /// How far two threads' counters are apart, in bytes; null where each has a block of its own.
    pub(crate) stride_bytes: Option<usize>,
    /// The machine.
    pub(crate) machine: Machine,
    /// One for each number of threads.
    pub(crate) rows: Vec<Row>,
}

/// The twins.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Program {
    /// This one.
    Rust,
    /// collect.c.
    #[expect(dead_code, reason = "the twin writes it; the schema has both")]
    C,
}

/// All runs with one number of threads.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Row {
    /// How many.
    pub(crate) threads: usize,
    /// Whether there were more threads than processors, so that they ran by turns.
    pub(crate) time_sliced: bool,
    /// Runs whose threads ran side by side. If there are any, the next three values are of them only.
    pub(crate) side_by_side_runs: usize,
    /// Seconds of a run.
    pub(crate) median_s: f64,
    /// Of the fastest.
    pub(crate) min_s: f64,
    /// Of the slowest.
    pub(crate) max_s: f64,
    /// `total` / `median_s`.
    pub(crate) counts_per_second: f64,
    /// `counts_per_second` divided by that of one thread; null if one thread was not measured.
    pub(crate) speed_up: Option<f64>,
    /// Each run, in the order of running.
    pub(crate) runs: Vec<Run>,
}

impl Document {
    /// A document that has no rows yet.
    pub(crate) fn new(job: &Job, machine: Machine) -> Self {
        let stride_bytes = match job.layout {
            Layout::Packed => Some(size_of::<u64>()),
            Layout::Padded => Some(machine.line_size_bytes),
            Layout::PerThread => None,
        };
        Self {
            schema: "collect",
            version: VERSION,
            program: Program::Rust,
            layout: job.layout,
            op: job.op,
            locked: job.op == Op::Rmw && job.layout != Layout::PerThread,
            total: job.total,
            pinned: job.pin,
            stride_bytes,
            machine,
            rows: Vec::new(),
        }
    }

    /// The row of some runs.
    pub(crate) fn row(&self, threads: usize, runs: Vec<Run>) -> Row {
        let good: Vec<f64> = seconds(runs.iter().filter(|run| run.side_by_side));
        let side_by_side_runs = good.len();
        let used = if good.is_empty() {
            seconds(runs.iter())
        } else {
            good
        };
        let middle = used.len() / 2;
        let median_s = if used.len() % 2 == 1 {
            used[middle]
        } else {
            f64::midpoint(used[middle - 1], used[middle])
        };
        let counts_per_second = self.total as f64 / median_s;
        let alone = self.rows.first().filter(|row| row.threads == 1);
        let alone = match threads {
            1 => Some(counts_per_second),
            _ => alone.map(|row| row.counts_per_second),
        };
        Row {
            threads,
            time_sliced: threads > self.machine.processors,
            side_by_side_runs,
            median_s,
            min_s: used[0],
            max_s: used[used.len() - 1],
            counts_per_second,
            speed_up: alone.map(|alone| counts_per_second / alone),
            runs,
        }
    }
}

/// The times of runs, sorted.
fn seconds<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<f64> {
    let mut seconds: Vec<f64> = runs.map(|run| run.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    seconds
}

#[cfg(test)]
mod tests {
    use schemars::generate::SchemaSettings;

    use super::*;
    use crate::machine::LineSizeFrom;

    fn document() -> Document {
        let machine = Machine {
            processor: "p".to_owned(),
            processors: 2,
            line_size_bytes: 64,
            line_size_from: LineSizeFrom::Sysfs,
            cpus: vec![0, 1],
        };
        let job = Job {
            layout: Layout::Padded,
            op: Op::Rmw,
            total: 12,
            pin: false,
        };
        Document::new(&job, machine)
    }

    fn runs(runs: &[(f64, bool)]) -> Vec<Run> {
        let run = |&(seconds, side_by_side)| Run {
            seconds,
            processors_used: 1.0,
            side_by_side,
        };
        runs.iter().map(run).collect()
    }

    #[test]
    fn runs_that_were_not_side_by_side_are_left_out_if_others_were() {
        let document = document();
        let row = document.row(
            2,
            runs(&[(9.0, false), (3.0, true), (1.0, true), (2.0, true)]),
        );
        assert_eq!((row.min_s, row.median_s, row.max_s), (1.0, 2.0, 3.0));
        assert_eq!((row.side_by_side_runs, row.time_sliced), (3, false));
        assert_eq!((row.counts_per_second, row.speed_up), (6.0, None));
        let row = document.row(3, runs(&[(9.0, false), (3.0, false)]));
        assert_eq!((row.median_s, row.side_by_side_runs), (6.0, 0));
        assert!(row.time_sliced);
    }

    #[test]
    fn speed_up_is_over_one_thread() {
        let mut document = document();
        let row = document.row(1, runs(&[(4.0, true)]));
        assert_eq!(row.speed_up, Some(1.0));
        document.rows.push(row);
        assert_eq!(document.row(2, runs(&[(2.0, true)])).speed_up, Some(2.0));
    }

    /// `UPDATE=1` writes the file anew.
    #[test]
    fn the_schema_file_is_in_step() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/collect.schema.json");
        let schema = SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<Document>();
        let text = format!("{:#}\n", schema.to_value());
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert!(
            std::fs::read_to_string(path).unwrap_or_default() == text,
            "collect.schema.json is out of step: run `UPDATE=1 cargo test -p collector`, raise VERSION if a value went \
             or changed its meaning, and change collect.c"
        );
    }
}
