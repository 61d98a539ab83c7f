//! What the layout does, for a person: the verdict, each layout's line, the cliff, and what to do.

use std::io::{self, Write};

use hitm_experiment::shake::{Arm, ArmEstimate, Ended, Explained, Judgement, Shaken, Verdict};
use hitm_experiment::{LogRatio, Range};
use unicode_width::UnicodeWidthStr as _;

use super::words;
use crate::page::{BAD, BOLD, DIM, PLAIN, Page, PageOptions, Span, TYPE_THIS, WARN, plain, span};
use crate::words::counted;

/// Pairs of variables that are shown of each kind.
const MOST_PAIRS: usize = 10;

/// Renders it as a table.
///
/// # Errors
/// If `out` cannot be written to.
pub fn shake_table(shaken: &Shaken, options: &PageOptions, out: &mut impl Write) -> io::Result<()> {
    let page = &mut Page::new(out, options.color, options.width);
    headline(page, shaken)?;
    page.blank()?;
    layouts(page, shaken)?;
    failures(page, shaken)?;
    if let Some(judgement) = shaken.judgement.as_ref() {
        cliff(page, shaken, judgement)?;
    }
    for caveat in &shaken.caveats {
        page.blank()?;
        page.paragraph(&[span(WARN, "! ")], 2, &[plain(caveat)])?;
    }
    if let Some(kept) = &shaken.kept {
        page.blank()?;
        page.paragraph(&[], 0, &[plain(format!("The builds are in {kept}"))])?;
    }
    Ok(())
}

fn headline(page: &mut Page<'_>, shaken: &Shaken) -> io::Result<()> {
    let (style, verdict) = match shaken.judgement.as_ref().map(|it| (it, it.verdict)) {
        None => (
            WARN,
            "Nothing was measured: no layout differs from the base".to_owned(),
        ),
        Some((it, Verdict::Matters)) => (BAD, format!("The layout matters: {}", spread(it))),
        Some((it, Verdict::DoesNotMatter)) => (
            BOLD,
            format!(
                "The layout does not matter here, within {}, in {}: {}",
                distance(it.floor),
                counted(it.variants.len() as u64, "other layout"),
                spread(it)
            ),
        ),
        Some((it, Verdict::Undecided { more_rounds })) => {
            let more = more_rounds.map_or_else(String::new, |more| {
                format!("; about {more} rounds more would tell, at this noise")
            });
            (
                WARN,
                format!("Undecided whether the layout matters: {}{more}", spread(it)),
            )
        }
    };
    page.paragraph(&[], 0, &[span(style, verdict)])?;
    let how = match shaken.program.relinked {
        true => format!("linked again by {}", shaken.program.linker),
        false => "built again".to_owned(),
    };
    let better = match shaken.better {
        hitm_experiment::Better::Higher => "higher",
        hitm_experiment::Better::Lower => "lower",
    };
    let about = format!(
        "{}, {better} is better, of {} from `{}`, {how} for each layout, on {}",
        shaken.metric, shaken.program.path, shaken.build, shaken.machine,
    );
    page.paragraph(&[], 0, &[span(DIM, about)])?;
    if let Some(text) = shaken
        .rounds
        .as_ref()
        .and_then(|rounds| stopped(&rounds.ended))
    {
        page.paragraph(&[], 0, &[span(WARN, text)])?;
    }
    Ok(())
}

/// `from the best to the worst 12 % [10 %, 15 %], the base differs from itself by 0.3 %`.
fn spread(judgement: &Judgement) -> String {
    let mut parts = Vec::new();
    if let (Some(spread), Some(interval)) = (judgement.spread, judgement.spread_interval) {
        parts.push(format!(
            "from the best to the worst {} {}",
            distance(spread),
            range(interval, distance)
        ));
    }
    if let Some(again) = &judgement.base_again {
        parts.push(format!(
            "the base differs from itself by {} {}",
            distance(again.effect.abs()),
            range(again.interval, signed)
        ));
    }
    match parts.is_empty() {
        true => "no round is complete".to_owned(),
        false => parts.join(", "),
    }
}

fn stopped(ended: &Ended<String>) -> Option<String> {
    Some(match ended {
        Ended::AllRun => return None,
        Ended::Budget => {
            "The time was over before all rounds were run (more: --budget SECONDS)".into()
        }
        Ended::Disturbed => {
            "Other programs took the processors too often (try again on an idle machine)".into()
        }
        Ended::Running => "It has not ended: what was measured so far".into(),
        Ended::Interrupted => "Interrupted: what was measured so far".into(),
        Ended::Failed(why) => format!("The base failed: {why}"),
    })
}

const COLUMNS: usize = 6;

/// One line a layout.
fn layouts(page: &mut Page<'_>, shaken: &Shaken) -> io::Result<()> {
    let head = [
        "layout",
        "variables moved",
        "median",
        "to the base",
        "95 % of all at once",
        "p",
    ];
    let mut lines: Vec<([String; COLUMNS], Option<Arm>)> = vec![(head.map(str::to_owned), None)];
    lines.push((line(shaken, Arm::Base, "–".into()), Some(Arm::Base)));
    lines.push((
        line(shaken, Arm::BaseAgain, "–".into()),
        Some(Arm::BaseAgain),
    ));
    for variant in &shaken.variants {
        let moved = words::moved(variant);
        let arm = variant.number.map(Arm::Variant);
        let mut cells = arm.map_or_else(
            || std::array::from_fn(|_| "–".to_owned()),
            |arm| line(shaken, arm, moved.clone()),
        );
        cells[0] = variant.change.to_string();
        cells[1] = moved;
        lines.push((cells, arm));
    }
    let width = |column: usize| lines.iter().map(|(cells, _)| cells[column].width()).max();
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    for (number, (cells, arm)) in lines.iter().enumerate() {
        let style = match number {
            0 => DIM,
            _ => side(shaken, *arm),
        };
        let padded = cells
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (text, width))| {
                let blanks = " ".repeat(width - text.width() + 2);
                span(
                    if column == 0 { style } else { PLAIN },
                    format!("{text}{blanks}"),
                )
            });
        page.row(&padded.collect::<Vec<Span>>())?;
    }
    Ok(())
}

fn side(shaken: &Shaken, arm: Option<Arm>) -> anstyle::Style {
    match (shaken.judgement.as_ref(), arm) {
        (Some(judgement), Some(arm)) if judgement.sides.slow.contains(&arm) => BAD,
        (Some(judgement), Some(arm)) if judgement.sides.fast.contains(&arm) => TYPE_THIS,
        _ => PLAIN,
    }
}

fn line(shaken: &Shaken, arm: Arm, moved: String) -> [String; COLUMNS] {
    let nothing = || "–".to_owned();
    let median = shaken.rounds.as_ref().and_then(|rounds| {
        let mut values: Vec<f64> = rounds.trials(arm).map(|(_, trial)| trial.value).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    });
    let mut cells = [
        words::arm(shaken, arm),
        moved,
        median.map_or_else(nothing, |value| {
            crate::comparison::number(shaken.metric.unit(), value)
        }),
        nothing(),
        nothing(),
        nothing(),
    ];
    if let Some(estimate) = estimate(shaken, arm) {
        cells[3] = signed(estimate.effect);
        cells[4] = range(estimate.interval, signed);
        cells[5] = format!("{:.4}", estimate.p);
    }
    cells
}

fn estimate(shaken: &Shaken, arm: Arm) -> Option<&ArmEstimate> {
    let judgement = shaken.judgement.as_ref()?;
    let again = judgement.base_again.iter();
    again
        .chain(&judgement.variants)
        .find(|estimate| estimate.arm == arm)
}

fn failures(page: &mut Page<'_>, shaken: &Shaken) -> io::Result<()> {
    if shaken.missing() > 0 {
        page.blank()?;
    }
    for variant in &shaken.variants {
        if let Some(why) = words::failure(shaken, variant) {
            let text = format!("{}: {}", variant.change, why.replace('\n', " "));
            page.paragraph(&[span(WARN, "! ")], 2, &[plain(text)])?;
        }
    }
    Ok(())
}

/// Which layouts are on which side, and which variables tell them apart.
fn cliff(page: &mut Page<'_>, shaken: &Shaken, judgement: &Judgement) -> io::Result<()> {
    if judgement.verdict != Verdict::Matters {
        return Ok(());
    }
    page.blank()?;
    page.row(&[span(BOLD, "The cliff")])?;
    let sides = &judgement.sides;
    for (name, style, arms) in [
        ("fast: ", TYPE_THIS, &sides.fast),
        ("slow: ", BAD, &sides.slow),
        ("between: ", PLAIN, &sides.between),
    ] {
        if !arms.is_empty() {
            let names: Vec<String> = arms.iter().map(|arm| words::arm(shaken, *arm)).collect();
            page.paragraph(
                &[plain("   "), span(style, name)],
                12,
                &[plain(names.join(", "))],
            )?;
        }
    }
    let Some(found) = &shaken.explanation else {
        let text = "no build is on the other side: it is not where variables lie in the file";
        return page.paragraph(&[plain("   ")], 3, &[plain(text)]);
    };
    if !found.always.is_empty() {
        page.blank()?;
        let line = match found.bytes == shaken.line_size {
            true => "line",
            false => "pair of lines",
        };
        let title = format!(
            "On one {line} in every slow build, and in no fast one (of {})",
            counted(found.builds as u64, "build")
        );
        pairs(page, &title, &found.always, BAD)?;
        page.blank()?;
        let text = "Give one of them a line of its own (alignas, #[repr(align)], CachePadded), or put it beside what the same \
                    thread uses. Which threads meet there: `hitm run -- COMMAND` with a slow build";
        return page.paragraph(
            &[plain("   ")],
            3,
            &[plain(text), plain(" (`--keep` leaves them).")],
        );
    }
    page.blank()?;
    let text = "No pair of variables is on one line in every slow build and in no fast one: it may be something else that moved \
                (the alignment of code or of data to 16 or 32 bytes, a place within a page), or several pairs together.";
    page.paragraph(&[plain("   ")], 3, &[plain(text)])?;
    if !found.sometimes.is_empty() {
        let title = format!("Came onto one line from {} to {}", found.fast, found.slow);
        pairs(page, &title, &found.sometimes, PLAIN)?;
    }
    Ok(())
}

fn pairs(
    page: &mut Page<'_>,
    title: &str,
    all: &[Explained],
    style: anstyle::Style,
) -> io::Result<()> {
    page.row(&[span(BOLD, title)])?;
    for pair in all.iter().take(MOST_PAIRS) {
        let text = [
            span(style, &pair.a),
            span(DIM, format!(" +{} ", pair.a_offset)),
            plain("and "),
            span(style, &pair.b),
            span(DIM, format!(" +{}", pair.b_offset)),
        ];
        page.paragraph(&[plain("   ")], 5, &text)?;
    }
    if all.len() > MOST_PAIRS {
        let text = format!("   … {} more (--json)", all.len() - MOST_PAIRS);
        page.row(&[span(DIM, text)])?;
    }
    Ok(())
}

/// `[-0.3 %, +0.2 %]`.
fn range(range: Range, text: fn(LogRatio) -> String) -> String {
    let end = |end: LogRatio| match end.ln().is_finite() {
        true => text(end),
        false => "?".to_owned(),
    };
    format!("[{}, {}]", end(range.low), end(range.high))
}

/// `+2.1 %`, `×3.2` from a factor of two on, in either direction.
fn signed(ratio: LogRatio) -> String {
    match ratio.ratio() {
        factor if !(0.5..=2.0).contains(&factor) => format!("×{factor:.2}"),
        _ => format!("{:+.1} %", ratio.percent()),
    }
}

/// `2.1 %`, `3.2×` from a factor of two on.
fn distance(ratio: LogRatio) -> String {
    match ratio.ratio() {
        factor if factor >= 2.0 => format!("{factor:.1}×"),
        _ => format!("{:.1} %", ratio.percent()),
    }
}
