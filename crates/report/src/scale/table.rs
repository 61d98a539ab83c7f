//! What more threads give, for a person: the verdict, a table, a picture, the law, and the line.

use std::io::{self, Write};

use hitm_experiment::scale::{Point, PointEstimate, Scaled, SideBySide, Threads, Verdict};
use unicode_width::UnicodeWidthStr as _;

use super::{plot, words};
use crate::page::{BAD, BOLD, DIM, PLAIN, Page, PageOptions, Span, WARN, plain, span};
use crate::table::{TableOptions, table};

/// Findings of the slowest point that are shown.
const FINDINGS: usize = 3;

/// Renders it as a table.
///
/// # Errors
/// If `out` cannot be written to.
pub fn scale_table(scaled: &Scaled, options: &PageOptions, out: &mut impl Write) -> io::Result<()> {
    let page = &mut Page::new(out, options.color, options.width);
    headline(page, scaled)?;
    page.blank()?;
    points(page, scaled)?;
    page.blank()?;
    let picture = plot::plot(scaled, page.width());
    for line in &picture {
        page.row(&[plain(line)])?;
    }
    if !picture.is_empty() {
        page.blank()?;
    }
    for line in words::law(&scaled.judgement, first(scaled)) {
        page.paragraph(&[], 0, &[plain(line)])?;
    }
    for caveat in words::caveats(scaled) {
        page.paragraph(&[span(WARN, "! ")], 2, &[plain(caveat.replace('\n', " "))])?;
    }
    evidence(scaled, options, out)
}

fn headline(page: &mut Page<'_>, scaled: &Scaled) -> io::Result<()> {
    let style = match scaled.judgement.verdict {
        Verdict::Negative { .. } => BAD,
        Verdict::Linear | Verdict::SubLinear { .. } => BOLD,
        Verdict::Undecided { .. } | Verdict::SayWork(_) | Verdict::None(_) => WARN,
    };
    page.paragraph(&[], 0, &[span(style, words::verdict(scaled))])?;
    let mut command = hitm_model::shell_command(&scaled.command);
    for (name, value) in scaled.variables.iter().rev() {
        command = format!("{name}={} {command}", hitm_model::shell_word(value));
    }
    let about = format!(
        "{}: {}; on {}, {} of it to be used: {command}",
        scaled.metric.name,
        words::meaning(scaled.judgement.meaning),
        scaled.machine,
        crate::words::counted(scaled.rounds.plan.processors as u64, "processor"),
    );
    page.paragraph(&[], 0, &[span(DIM, about)])
}

fn first(scaled: &Scaled) -> Option<Threads> {
    scaled.rounds.plan.points.first().copied()
}

const COLUMNS: usize = 8;

fn points(page: &mut Page<'_>, scaled: &Scaled) -> io::Result<()> {
    let head = [
        "n",
        "median",
        words::throughput(scaled.judgement.meaning),
        "speed-up",
        "95 % of all at once",
        "efficiency",
        "processors used",
        "runs",
    ];
    let mut lines = vec![(head.map(str::to_owned), DIM)];
    for point in &scaled.rounds.points {
        let estimates = scaled.judgement.points.iter();
        let estimate = estimates.clone().find(|it| it.threads == point.threads);
        lines.push(line(scaled, point, estimate));
    }
    let width = |column: usize| lines.iter().map(|(cells, _)| cells[column].width()).max();
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    for (cells, style) in &lines {
        let padded = cells.iter().zip(&widths).map(|(text, width)| {
            let blanks = " ".repeat(width - text.width());
            span(*style, format!("{blanks}{text}  "))
        });
        page.row(&padded.collect::<Vec<Span>>())?;
    }
    Ok(())
}

fn line(
    scaled: &Scaled,
    raw: &Point<String>,
    estimate: Option<&PointEstimate>,
) -> ([String; COLUMNS], anstyle::Style) {
    let mut cells: [String; COLUMNS] = std::array::from_fn(|_| "–".to_owned());
    let threads = raw.threads;
    let disturbed = raw.runs.iter().filter(|run| !run.counts()).count();
    let mark = if scaled.rounds.plan.fits(threads) {
        ""
    } else {
        "*"
    };
    cells[0] = format!("{threads}{mark}");
    let with_disturbed = |runs: usize| match disturbed {
        0 => runs.to_string(),
        _ => format!("{runs} (+{disturbed} disturbed)"),
    };
    cells[7] = with_disturbed(0);
    // What was measured is shown, though it does not count.
    let mut values: Vec<f64> = raw.runs.iter().map(|run| run.trial.value).collect();
    values.sort_by(f64::total_cmp);
    if let Some(value) = values.get(values.len() / 2) {
        cells[1] = format!(
            "({})",
            crate::comparison::number(scaled.metric.unit, *value)
        );
    }
    let (Some(point), Some(first)) = (estimate, first(scaled)) else {
        return (cells, WARN);
    };
    cells[1] = crate::comparison::number(scaled.metric.unit, point.median);
    cells[2] = crate::comparison::number("", point.throughput);
    if threads == first {
        cells[3] = "1".to_owned();
    }
    if let Some(speed_up) = point.speed_up {
        cells[3] = words::factor(speed_up);
    }
    if let Some(interval) = point.interval {
        cells[4] = words::range(interval);
    }
    if let (Some(efficiency), false) = (point.efficiency(first), point.time_sliced) {
        cells[5] = format!("{:.0} %", efficiency.ratio() * 100.0);
    }
    cells[6] = format!("{:.2}", point.overlap);
    cells[7] = with_disturbed(point.runs);
    let apart = !point.time_sliced && point.side_by_side != SideBySide::Yes;
    if apart {
        cells[6].push_str(" (not side by side)");
    }
    let style = match () {
        () if point.time_sliced => DIM,
        () if apart => WARN,
        () => PLAIN,
    };
    (cells, style)
}

/// What the lines do at the slowest point.
fn evidence(scaled: &Scaled, options: &PageOptions, out: &mut impl Write) -> io::Result<()> {
    let Some(evidence) = &scaled.evidence else {
        return Ok(());
    };
    let title = format!("What hitm run sees with n = {}", evidence.threads);
    let page = &mut Page::new(out, options.color, options.width);
    page.blank()?;
    page.row(&[span(BOLD, title)])?;
    match &evidence.report {
        Err(why) => page.paragraph(
            &[span(WARN, "! ")],
            2,
            &[plain(format!("not recorded: {}", why.replace('\n', " ")))],
        ),
        Ok(report) => {
            let options = TableOptions {
                color: options.color,
                width: options.width,
                top: Some(FINDINGS),
                all: false,
                recording: None,
            };
            table(report, &options, out)
        }
    }
}
