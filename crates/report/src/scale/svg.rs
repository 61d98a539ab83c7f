//! Speed-up over threads, as an SVG picture: points with their intervals, the ideal, and the law.

use std::io::{self, Write};

use hitm_experiment::scale::{PointEstimate, Scaled};

use super::words;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// Places at which the law is drawn.
const STEPS: u32 = 100;

/// Where numbers are on the picture.
struct Axes {
    threads: f64,
    speed_up: f64,
}

impl Axes {
    fn x(&self, threads: f64) -> f64 {
        LEFT + threads / self.threads * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, speed_up: f64) -> f64 {
        let part = speed_up.clamp(0.0, self.speed_up) / self.speed_up;
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    }
}

/// Draws it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn scale_svg(scaled: &Scaled, out: &mut impl Write) -> io::Result<()> {
    let points = &scaled.judgement.points;
    let speed_up = |point: &PointEstimate| point.speed_up.map_or(1.0, |ratio| ratio.ratio());
    let most = points
        .iter()
        .map(|point| f64::from(point.threads.0))
        .fold(1.0, f64::max);
    let axes = Axes {
        threads: most * 1.05,
        speed_up: points.iter().map(speed_up).fold(1.0, f64::max) * 1.15,
    };
    writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
    )?;
    writeln!(
        out,
        r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#
    )?;
    let command = escape(&hitm_model::shell_command(&scaled.command));
    writeln!(
        out,
        r#"<text x="{LEFT}" y="20" font-weight="bold">{command}</text>"#
    )?;
    let verdict = escape(words::in_a_word(&scaled.judgement.verdict));
    writeln!(out, r#"<text x="{LEFT}" y="38">{verdict}</text>"#)?;
    frame(scaled, &axes, out)?;
    curves(scaled, &axes, out)?;
    for point in points {
        draw(point, speed_up(point), &axes, out)?;
    }
    writeln!(out, "</svg>")
}

fn frame(scaled: &Scaled, axes: &Axes, out: &mut impl Write) -> io::Result<()> {
    let (left, bottom) = (axes.x(0.0), axes.y(0.0));
    let (right, top) = (axes.x(axes.threads), axes.y(axes.speed_up));
    writeln!(
        out,
        r#"<path d="M{left:.1} {top:.1}V{bottom:.1}H{right:.1}" fill="none" stroke="black"/>"#
    )?;
    for point in &scaled.judgement.points {
        let (x, y, n) = (
            axes.x(f64::from(point.threads.0)),
            bottom + 16.0,
            point.threads,
        );
        writeln!(
            out,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">{n}</text>"#
        )?;
    }
    for step in 0..=4 {
        let value = axes.speed_up * f64::from(step) / 4.0;
        let (x, y) = (left - 6.0, axes.y(value) + 4.0);
        writeln!(
            out,
            r#"<text x="{x:.1}" y="{y:.1}" text-anchor="end">{value:.2}</text>"#
        )?;
    }
    let (x, y) = (f64::midpoint(left, right), bottom + 34.0);
    writeln!(
        out,
        r#"<text x="{x:.1}" y="{y:.1}" text-anchor="middle">threads (speed-up; bars: 95 % of all at once; hollow: time-sliced; dashed: ideal)</text>"#
    )
}

/// The ideal, and the law where it was fitted.
fn curves(scaled: &Scaled, axes: &Axes, out: &mut impl Write) -> io::Result<()> {
    let Some(first) = scaled.judgement.points.first() else {
        return Ok(());
    };
    let from = f64::from(first.threads.0);
    let fitting = scaled
        .judgement
        .points
        .iter()
        .filter(|point| !point.time_sliced);
    let to = fitting
        .map(|point| f64::from(point.threads.0))
        .fold(from, f64::max);
    // As far as the picture reaches.
    let end = to.min(axes.speed_up * from);
    writeln!(
        out,
        r##"<path d="M{:.1} {:.1}L{:.1} {:.1}" stroke="#888" stroke-dasharray="4 4"/>"##,
        axes.x(from),
        axes.y(1.0),
        axes.x(end),
        axes.y(end / from)
    )?;
    let Ok(fit) = &scaled.judgement.fit else {
        return Ok(());
    };
    let path: Vec<String> = (0..=STEPS)
        .map(|step| {
            let threads = from + (to - from) * f64::from(step) / f64::from(STEPS);
            let speed_up = fit.at(threads) / fit.at(from);
            format!("{:.1} {:.1}", axes.x(threads), axes.y(speed_up))
        })
        .collect();
    writeln!(
        out,
        r##"<path d="M{}" fill="none" stroke="#06c"/>"##,
        path.join("L")
    )
}

fn draw(point: &PointEstimate, speed_up: f64, axes: &Axes, out: &mut impl Write) -> io::Result<()> {
    let x = axes.x(f64::from(point.threads.0));
    let finite = |ratio: f64| ratio.is_finite() && ratio > 0.0;
    if let Some(interval) = point.interval
        && finite(interval.low.ratio())
        && finite(interval.high.ratio())
    {
        let (low, high) = (axes.y(interval.low.ratio()), axes.y(interval.high.ratio()));
        writeln!(
            out,
            r#"<path d="M{x:.1} {low:.1}V{high:.1}" stroke="black"/>"#
        )?;
    }
    let fill = if point.time_sliced { "white" } else { "black" };
    let y = axes.y(speed_up);
    writeln!(
        out,
        r#"<circle cx="{x:.1}" cy="{y:.1}" r="4" fill="{fill}" stroke="black"/>"#
    )
}

fn escape(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars()
        .map(visible)
        .collect::<String>()
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
