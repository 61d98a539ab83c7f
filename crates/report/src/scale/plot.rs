//! Speed-up over threads, in characters.

use hitm_experiment::scale::{PointEstimate, Scaled};

/// Lines of the picture.
const HEIGHT: usize = 12;
/// Columns at most between two numbers of threads.
const WIDEST: usize = 8;
/// Columns of the scale on the left.
const LEFT: usize = 10;

/// The lines of the picture: `●` a point, `○` a time-sliced one, `│` its interval, `·` the ideal. None if there is nothing to
/// see.
pub(super) fn plot(scaled: &Scaled, width: usize) -> Vec<String> {
    let points = &scaled.judgement.points;
    let Some(first) = points.first().filter(|_| points.len() > 1) else {
        return Vec::new();
    };
    let most = points
        .iter()
        .map(|point| point.threads.0)
        .max()
        .unwrap_or(1) as usize;
    let room = width.saturating_sub(LEFT + 4).max(16);
    // Many threads share columns, few have several.
    let column = |threads: f64| -> usize {
        let step = (room as f64 / most as f64).min(WIDEST as f64);
        (threads * step).round() as usize
    };
    let speed_up = |point: &PointEstimate| point.speed_up.map_or(1.0, |ratio| ratio.ratio());
    let top = points.iter().map(speed_up).fold(1.0, f64::max) * 1.1;
    let line = |value: f64| -> Option<usize> {
        let from_top = (top - value) / top * (HEIGHT - 1) as f64;
        (0.0..=(HEIGHT - 1) as f64)
            .contains(&from_top)
            .then(|| from_top.round() as usize)
    };
    let mut cells = vec![vec![' '; column(most as f64) + 2]; HEIGHT];
    let ideal = |threads: usize| threads as f64 / f64::from(first.threads.0);
    for threads in 1..=most.min(scaled.rounds.plan.processors) {
        if let Some(at) = line(ideal(threads)) {
            cells[at][column(threads as f64)] = '·';
        }
    }
    for point in points {
        let at = column(f64::from(point.threads.0));
        if let Some(interval) = point.interval {
            let ends = [interval.low, interval.high].map(|end| end.ratio().clamp(0.0, top));
            if interval.low.ln().is_finite()
                && let [Some(low), Some(high)] = ends.map(line)
            {
                for row in &mut cells[high..=low] {
                    row[at] = '│';
                }
            }
        }
        if let Some(row) = line(speed_up(point)) {
            cells[row][at] = if point.time_sliced { '○' } else { '●' };
        }
    }
    let mut lines = vec!["  speed-up".to_owned()];
    for (number, row) in cells.iter().enumerate() {
        let value = top * (1.0 - number as f64 / (HEIGHT - 1) as f64);
        let row: String = row.iter().collect();
        lines.push(format!("{value:>LEFT$.2} ┤{}", row.trim_end()));
    }
    lines.push(format!(
        "{:>LEFT$} └{}",
        "",
        "─".repeat(column(most as f64) + 2)
    ));
    lines.push(numbers(points, column));
    let sliced = points.iter().any(|point| point.time_sliced);
    let key = if sliced {
        "  ● measured  ○ time-sliced  · ideal"
    } else {
        "  ● measured  · ideal"
    };
    lines.push(key.to_owned());
    lines
}

/// The numbers of threads under their columns, as far as there is room.
fn numbers(points: &[PointEstimate], column: impl Fn(f64) -> usize) -> String {
    let mut line = " ".repeat(LEFT + 2);
    for point in points {
        let at = LEFT + 2 + column(f64::from(point.threads.0));
        let text = point.threads.to_string();
        let length = line.chars().count();
        if length <= at {
            line.push_str(&" ".repeat(at - length));
            line.push_str(&text);
            line.push(' ');
        }
    }
    format!("{} threads", line.trim_end())
}
