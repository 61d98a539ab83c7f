//! `hitm doctor`: what this machine can do, and what to type where it cannot.
//!
//! [`examine()`] asks and measures, [`render`] says it; deciding what it means is `hitm_collect::machine`'s.

mod examine;
mod matrix;
mod render;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::exit_codes::Exit;

use examine::examine;

/// What the user asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DoctorOptions {
    /// Only ask, measure nothing: done at once.
    pub(crate) quick: bool,
}

/// Examines this machine and prints what was found on stdout.
///
/// # Errors
/// If stdout cannot be written to.
pub(crate) fn run(options: &DoctorOptions) -> anyhow::Result<Exit> {
    let bar = progress_bar();
    let examination = examine(options.quick, &mut |what, share| {
        bar.set_message(what.to_owned());
        bar.set_position((share * STEPS) as u64);
    });
    bar.finish_and_clear();
    let mut out = anstream::stdout().lock();
    render::examination(&examination, &mut out)?;
    out.flush()?;
    Ok(if examination.abilities.can_run() {
        Exit::Done
    } else {
        Exit::Refused
    })
}

const STEPS: f64 = 100.0;

/// A bar on stderr; indicatif draws nothing where that is no terminal.
fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(STEPS as u64), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
