//! `hitm demo`: false sharing found, repaired, and gone, on an example inside hitm itself.
//!
//! It samples and analyses as `hitm run` does, with a child of itself as the program; then it compares both layouts
//! without the sampler.

mod compare;
mod sampled;
mod workload;

use std::io::{self, Write};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use clap::builder::styling::Style;
use hitm_model::Report;
use hitm_report::TableOptions;

use self::compare::{Pair, compare, nanos_per_item, side_by_side, speed_ups};
use self::workload::{Layout, MOST_THREADS, Work};
use crate::exit_codes::Exit;
use crate::output;

/// The hidden subcommand that is the program of the demo.
const WORKLOAD: &str = "demo-workload";
/// What the names of its counters have in common.
const COUNTERS: &str = "COUNTS";
const SAMPLED: Duration = Duration::from_millis(1200);
const HEADING: Style = Style::new().bold();

/// Runs the whole demo.
///
/// # Errors
/// If the machine refuses to sample, or the workload cannot be run.
pub(crate) fn run() -> anyhow::Result<Exit> {
    let interrupt = super::interrupt::flag()?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.clamp(2, MOST_THREADS);
    let sample = |layout| {
        let work = Work {
            layout,
            threads,
            length: SAMPLED,
            compared: false,
        };
        sampled::sample(&work, &interrupt)
    };
    let interrupted = || interrupt.load(Ordering::Relaxed);

    say(&format!(
        "{HEADING}1. Packed.{HEADING:#} {threads} threads count items, each in a counter of its own; all counters are \
         on one cache line.\n"
    ))?;
    let packed = sample(Layout::Packed)?;
    if interrupted() {
        return Ok(Exit::Done);
    }
    table(&packed)?;
    let found = sampled::shows_false_sharing(&packed);
    if !found {
        say(
            "\nThe false sharing was not seen this time: see the caveats above, and try again on an idle machine.",
        )?;
    }

    say(&format!(
        "\n{HEADING}2. Repaired.{HEADING:#} The same threads and items, each counter on a line of its own \
         (repr(align(128))).\n"
    ))?;
    let padded = sample(Layout::Padded)?;
    if interrupted() {
        return Ok(Exit::Done);
    }
    let gone = !sampled::shows_false_sharing(&padded);
    if gone {
        let totals = padded.totals;
        say(&format!(
            "No false sharing of the counters in {} samples of {} threads: the finding is gone.",
            totals.samples, totals.sampled_threads
        ))?;
    } else {
        table(&padded)?;
    }

    say(&format!(
        "\n{HEADING}3. What it gains.{HEADING:#} Both layouts, not sampled, in pairs:\n"
    ))?;
    if cores < 2 {
        say(
            "Cannot tell: only one processor may be used here, and lines are fought over only between two.",
        )?;
    } else {
        let pairs = compare(threads, || !interrupted(), &mut |number, pair| {
            say(&pair_line(number, pair))
        })?;
        say(&conclusion(&pairs))?;
    }
    say("\nThe same for a program of yours: hitm run -- COMMAND")?;
    // A machine that was too busy to show it has refused; nothing is wrong with the request.
    Ok(if found && gone {
        Exit::Done
    } else {
        Exit::Refused
    })
}

/// Runs the program of the demo, in this process.
///
/// # Errors
/// If the arguments are wrong or a thread cannot be started.
pub(crate) fn workload(arguments: &[String]) -> anyhow::Result<Exit> {
    let work = Work::parse(arguments)?;
    let tally = workload::perform(&work)?;
    if work.compared {
        writeln!(io::stdout(), "{}", tally.line())?;
    }
    Ok(Exit::Done)
}

fn table(report: &Report) -> anyhow::Result<()> {
    let mut text = Vec::new();
    let options = TableOptions {
        color: true,
        width: output::width(&io::stdout()),
        top: Some(1),
        all: false,
        recording: None,
    };
    hitm_report::table(report, &options, &mut text)?;
    anstream::stdout().lock().write_all(&text)?;
    Ok(())
}

fn say(text: &str) -> anyhow::Result<()> {
    writeln!(anstream::stdout().lock(), "{text}")?;
    Ok(())
}

fn pair_line(number: usize, pair: &Pair) -> String {
    let cost = |run| match nanos_per_item(run) {
        Some(nanos) => format!("{nanos:6.2} ns"),
        None => "        –".to_owned(),
    };
    let (packed, padded) = (cost(&pair.packed), cost(&pair.padded));
    let share = side_by_side(&pair.packed).min(side_by_side(&pair.padded)) * 100.0;
    let outcome = match pair.speed_up() {
        Some(ratio) => format!("{ratio:5.2}×   side by side for {share:.0} % of the time"),
        None => format!("left out: the threads ran side by side for only {share:.0} % of the time"),
    };
    format!("  pair {number}   packed {packed}   padded {padded}   {outcome}")
}

fn conclusion(pairs: &[Pair]) -> String {
    match speed_ups(pairs) {
        None => "Cannot tell what it gains: the threads never ran side by side for long. `hitm doctor` says why; try \
                 again on an idle machine."
            .to_owned(),
        Some(gain) => {
            let few = if gain.count < 3 { " (few: try again on an idle machine)" } else { "" };
            format!(
                "The repaired layout gets {:.2}× as much done (CPU time per item; {:.2} to {:.2} over {} of {} \
                 pairs{few}).",
                gain.median,
                gain.least,
                gain.most,
                gain.count,
                pairs.len()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::workload::Tally;
    use super::*;

    fn pair(packed: u64, padded: u64, good: usize) -> Pair {
        let run = |nanos| Tally {
            items: 100,
            cpu: Duration::from_nanos(100 * nanos),
            good,
            slices: 220,
        };
        Pair {
            packed: run(packed),
            padded: run(padded),
        }
    }

    #[test]
    fn pairs_and_conclusion_in_words() {
        let pairs = [
            pair(24, 6, 220),
            pair(26, 6, 55),
            pair(9, 6, 4),
            pair(21, 7, 11),
        ];
        let lines: Vec<String> = pairs
            .iter()
            .enumerate()
            .map(|(index, pair)| pair_line(index + 1, pair))
            .chain([conclusion(&pairs), conclusion(&pairs[2..3])])
            .collect();
        assert_eq!(
            lines,
            [
                "  pair 1   packed  24.00 ns   padded   6.00 ns    4.00×   side by side for 100 % of the time",
                "  pair 2   packed  26.00 ns   padded   6.00 ns    4.33×   side by side for 25 % of the time",
                "  pair 3   packed         –   padded         –   left out: the threads ran side by side for only 2 % of \
                 the time",
                "  pair 4   packed  21.00 ns   padded   7.00 ns    3.00×   side by side for 5 % of the time",
                "The repaired layout gets 4.00× as much done (CPU time per item; 3.00 to 4.33 over 3 of 4 pairs).",
                "Cannot tell what it gains: the threads never ran side by side for long. `hitm doctor` says why; try \
                 again on an idle machine.",
            ]
        );
    }
}
