//! The line that says how far an experiment is, on stderr, or nothing where it would disturb.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is being done.
pub(super) const WORKING: &str = "{spinner} {wide_msg}";
/// And how much of it, where all is run whatever comes out.
pub(super) const COUNTED: &str = "{spinner} {bar:20} {wide_msg}, {eta} left";
/// And how much of it at most, where it may end earlier.
pub(super) const AT_MOST: &str = "{spinner} {bar:20} {wide_msg}";

/// The line.
pub(super) struct Bar(Option<ProgressBar>);

impl Bar {
    /// Of so many steps, if that is known.
    pub(super) fn new(steps: Option<usize>, template: &str, says: &str) -> Self {
        let bar = Self(io::stderr().is_terminal().then(|| {
            let steps = steps.map(|steps| steps as u64);
            ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr())
        }));
        bar.style(template);
        bar.says(says);
        if let Some(bar) = &bar.0 {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        bar
    }

    /// From now on steps are counted.
    pub(super) fn counts(&self, steps: usize) {
        if let Some(bar) = &self.0 {
            bar.set_length(steps as u64);
        }
        self.style(COUNTED);
    }

    /// What is being done.
    pub(super) fn says(&self, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_owned());
        }
    }

    /// A step is done; what it was is asked for only if it is shown.
    pub(super) fn step(&self, says: impl FnOnce() -> String) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
            bar.set_message(says());
        }
    }

    pub(super) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }

    fn style(&self, template: &str) {
        if let Some(bar) = &self.0
            && let Ok(style) = ProgressStyle::with_template(template)
        {
            bar.set_style(style);
        }
    }
}
