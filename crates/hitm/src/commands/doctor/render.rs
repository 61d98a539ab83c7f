//! An examination as text for a person.

use std::io::{self, Write};

use clap::builder::styling::{AnsiColor, Style};
use hitm_collect::machine::{
    CannotTell, CoRunVerdict, CostVerdict, Cpu, LineSource, Operation, PairVerdict, Ratio,
    cost_verdict, pair_verdict,
};

use super::examine::{Examination, Measured};
use super::matrix;

const HEADING: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default();
const NEUTRAL: Style = AnsiColor::Yellow.on_default();

/// Writes everything.
pub(super) fn examination(found: &Examination, out: &mut dyn Write) -> io::Result<()> {
    heading("This machine", out)?;
    machine(found, out)?;
    heading("\nWhat works", out)?;
    abilities(found, out)?;
    heading("\nWhat sharing costs here", out)?;
    match &found.measured {
        Some(measured) => costs(found, measured, out)?,
        None => writeln!(
            out,
            "  not measured; `hitm doctor` without --quick does it in a few seconds"
        )?,
    }
    writeln!(out)?;
    conclusion(found, out)
}

fn heading(text: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{HEADING}{text}{HEADING:#}")
}

fn row(name: &str, value: &str, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "  {name:<18}{value}")
}

fn machine(found: &Examination, out: &mut dyn Write) -> io::Result<()> {
    let machine = &found.machine;
    let guest = if machine.virtual_machine {
        " (in a virtual machine)"
    } else {
        ""
    };
    row("processor", &format!("{}{guest}", machine.processor), out)?;
    row(
        "kernel",
        &format!("{}, {}", machine.kernel, machine.architecture),
        out,
    )?;
    row("may use", &processors(found), out)?;
    if let Some(quota) = found.quota {
        let enough = if quota + 0.01 < found.cpus.len() as f64 {
            ": threads cannot all run side by side for long"
        } else {
            ""
        };
        row("CPU quota", &format!("{quota:.2} processors{enough}"), out)?;
    }
    row("line size", &line_size(found), out)?;
    if !found.lines.agree() {
        for (source, size) in &found.lines.stated {
            row("", &format!("{source}: {size} bytes"), out)?;
        }
    }
    let settings = &found.abilities.settings;
    if let Some(level) = settings.perf_event_paranoid {
        row(
            "perf paranoid",
            &format!("{level}: {}", paranoid(level)),
            out,
        )?;
    }
    if let Some(kib) = settings.perf_event_mlock_kb {
        row(
            "perf rings",
            &format!("up to {kib} KiB per processor (kernel.perf_event_mlock_kb)"),
            out,
        )?;
    }
    Ok(())
}

/// What a level of `kernel.perf_event_paranoid` leaves to an ordinary user.
fn paranoid(level: i32) -> &'static str {
    match level {
        ..=0 => "everything, the whole system included",
        1 => "programs of this user, kernel mode included",
        2 => "programs of this user in user mode, which is enough",
        _ => "nothing without CAP_PERFMON",
    }
}

fn processors(found: &Examination) -> String {
    let list = cpu_list(&found.cpus);
    match found.cpus.len() {
        0 => "unknown".to_owned(),
        1 => format!("1 processor ({list}): lines are fought over only between two"),
        count => {
            let cores = match &found.shared_cores {
                None => "cores unknown".to_owned(),
                Some(cores) if cores.is_empty() => "each a core of its own".to_owned(),
                Some(cores) => {
                    let cores: Vec<String> = cores.iter().map(|core| cpu_list(core)).collect();
                    format!("sharing a core: {}", cores.join(" "))
                }
            };
            format!("{count} processors ({list}), {cores}")
        }
    }
}

/// `0-3,8`.
fn cpu_list(cpus: &[Cpu]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &Cpu(cpu) in cpus {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let runs: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    runs.join(",")
}

fn line_size(found: &Examination) -> String {
    let Some(size) = found.lines.coherence() else {
        return "unknown: give it to hitm with --line-size".to_owned();
    };
    let caches: Vec<String> = found
        .lines
        .stated
        .iter()
        .filter_map(|(source, _)| match source {
            LineSource::Sysfs(cache) => Some(cache.to_string()),
            _ => None,
        })
        .collect();
    let source = if !found.lines.agree() {
        "the largest that holds data; the sources differ:".to_owned()
    } else if caches.is_empty() {
        "says the processor; sysfs has no caches here".to_owned()
    } else {
        format!("every cache ({})", caches.join(" "))
    };
    format!("{size} bytes, {source}")
}

fn abilities(found: &Examination, out: &mut dyn Write) -> io::Result<()> {
    let can = &found.abilities;
    let needed = [
        ("hitm run, perf", can.perf_sampler()),
        ("hitm run, preload", can.preload_sampler()),
        ("stacks of a child", can.reading_children()),
        ("stacks, attached", can.reading_others()),
        ("watchpoints", can.watchpoints()),
    ];
    let extras = [("PMU", can.pmu()), ("perf c2c, mem", can.memory_sampling())];
    let needed = needed.iter().map(|row| (row, BAD));
    let extras = extras.iter().map(|row| (row, NEUTRAL));
    // One refusal often has several victims: what to type is said once.
    let mut said: Vec<&str> = Vec::new();
    for ((name, answer), refused) in needed.chain(extras) {
        let (style, word) = if answer.works {
            (GOOD, "yes")
        } else {
            (refused, "no")
        };
        writeln!(
            out,
            "  {name:<20}{style}{word:<3}{style:#}  {}",
            answer.because
        )?;
        match answer.next.as_deref() {
            Some(next) if !said.contains(&next) => {
                writeln!(out, "  {:<20}     type: {next}", "")?;
                said.push(next);
            }
            _ => {}
        }
    }
    Ok(())
}

fn costs(found: &Examination, measured: &Measured, out: &mut dyn Write) -> io::Result<()> {
    side_by_side(found, measured, out)?;
    match &measured.latency {
        Ok(latency) => {
            row(
                "line transfer",
                "one way between two processors, median ns:",
                out,
            )?;
            matrix::matrix(latency, out)?;
        }
        Err(why) => row("line transfer", &format!("cannot tell: {why}"), out)?,
    }
    match one_reason(&measured.same_line) {
        Some(why) => row("a shared line", &format!("cannot tell: {why}"), out)?,
        None => {
            let what = "CPU time per operation, on one line over lines far apart:";
            row("a shared line", what, out)?;
            ratios(&measured.same_line, out)?;
        }
    }
    let size = found.lines.coherence().map_or(0, |size| size.bytes());
    let verdict = match pair_verdict(&measured.paired_lines) {
        PairVerdict::Matters => format!(
            "matters: pad to {} bytes, the neighbour of a pair of lines costs too",
            2 * size
        ),
        PairVerdict::DoesNotMatter => format!("does not matter: a line of {size} bytes is enough"),
        PairVerdict::CannotTell => match one_reason(&measured.paired_lines) {
            Some(why) => format!("cannot tell: {why}"),
            None => "cannot tell".to_owned(),
        },
    };
    let name = if size == 0 {
        "line pairs".to_owned()
    } else {
        format!("{}-byte pairs", 2 * size)
    };
    row(&name, &verdict, out)?;
    match one_reason(&measured.paired_lines) {
        Some(_) => Ok(()),
        None => ratios(&measured.paired_lines, out),
    }
}

/// Why there is no figure at all, where it is the same for all.
fn one_reason(ratios: &[(Operation, Result<Ratio, CannotTell>)]) -> Option<&CannotTell> {
    let (_, Err(first)) = ratios.first()? else {
        return None;
    };
    ratios
        .iter()
        .all(|(_, ratio)| ratio.as_ref().err() == Some(first))
        .then_some(first)
}

fn side_by_side(found: &Examination, measured: &Measured, out: &mut dyn Write) -> io::Result<()> {
    let text = match &measured.co_run {
        Err(why) => format!("cannot tell: {why}"),
        Ok(run) => {
            let [a, b] = run.cpus;
            let meaning = match run.verdict() {
                CoRunVerdict::SideBySide => "sharing costs now what it should",
                CoRunVerdict::Partly => {
                    "sharing costs somewhat less than it would on an idle machine"
                }
                CoRunVerdict::Hardly => "sharing costs less than it would on an idle machine",
            };
            let share = run.together * 100.0;
            let one_core = found.shared_cores.iter().flatten();
            let one_core = match one_core
                .into_iter()
                .any(|core| core.contains(&a) && core.contains(&b))
            {
                true => " of one core",
                false => "",
            };
            format!(
                "processors {a} and {b}{one_core} ran two threads at once for {share:.0} % of {}: {meaning}",
                run.watched
            )
        }
    };
    row("side by side", &text, out)?;
    match measured.co_run.as_ref().ok().and_then(|run| run.cause()) {
        Some(cause) => row("", &format!("{cause}; try again on an idle machine"), out),
        None => Ok(()),
    }
}

fn ratios(
    ratios: &[(Operation, Result<Ratio, CannotTell>)],
    out: &mut dyn Write,
) -> io::Result<()> {
    for (operation, ratio) in ratios {
        write!(out, "      {:<36}", operation.words())?;
        match ratio {
            Err(why) => writeln!(out, "cannot tell: {why}")?,
            Ok(ratio) => {
                let verdict = match cost_verdict(ratio) {
                    CostVerdict::Costs => "costs",
                    CostVerdict::Free => "costs nothing",
                    CostVerdict::Unclear => "unclear",
                };
                let interval = match ratio.interval {
                    Some((low, high)) => format!("{low:.2}..{high:.2}"),
                    None => "no interval".to_owned(),
                };
                write!(out, "{:>5.2}×  {interval:<14} {verdict}", ratio.median)?;
                if ratio.left_out > ratio.pairs {
                    let (kept, all) = (ratio.pairs, ratio.pairs + ratio.left_out);
                    write!(
                        out,
                        " (only {kept} of {all} pairs of windows ran side by side)"
                    )?;
                }
                writeln!(out)?;
            }
        }
    }
    Ok(())
}

fn conclusion(found: &Examination, out: &mut dyn Write) -> io::Result<()> {
    let can = &found.abilities;
    if can.perf_sampler().works {
        writeln!(
            out,
            "{GOOD}hitm run works here:{GOOD:#} hitm run -- COMMAND"
        )
    } else if can.preload_sampler().works {
        writeln!(
            out,
            "{GOOD}hitm run works here{GOOD:#} with its preloaded agent: hitm run --sampler preload -- COMMAND"
        )
    } else {
        writeln!(
            out,
            "{BAD}hitm run cannot work here{BAD:#} until one of its samplers does; see what to type above"
        )
    }
}
