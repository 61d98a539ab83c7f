//! How far a command is, on a terminal; nothing where there is none.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar for so many steps; without a number, or with one that nobody can wait for, it only says that something goes on.
pub(crate) fn bar(steps: Option<u64>, what: &str) -> ProgressBar {
    let draw = ProgressDrawTarget::stderr_with_hz(10);
    // A template that is wrong shows a bar all the same.
    let style = |template: &str| {
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
    };
    let bar = match steps {
        Some(steps) => ProgressBar::with_draw_target(Some(steps), draw).with_style(style(
            "{msg} {wide_bar} {human_pos} of {human_len}, {eta} to go",
        )),
        None => ProgressBar::with_draw_target(None, draw)
            .with_style(style("{spinner} {msg} {human_pos}")),
    };
    bar.set_message(what.to_owned());
    bar
}

/// Says that something goes on that takes a while.
pub(crate) fn spinner(what: &str) -> ProgressBar {
    let bar = bar(None, what).with_style(
        ProgressStyle::with_template("{spinner} {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner()),
    );
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
