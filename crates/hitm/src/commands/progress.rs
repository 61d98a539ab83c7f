//! The progress line of a recording, where there is a terminal that nobody else writes to.

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::time::Duration;

use hitm_collect::Progress;
use hitm_collect::prove::Phase;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::output;

/// How often it is drawn again, per second.
const DRAWS_PER_SECOND: u8 = 5;

/// A line that says how far a recording is, or nothing where it would disturb.
#[derive(Debug)]
pub(super) struct ProgressLine {
    bar: Option<ProgressBar>,
    said: bool,
}

impl ProgressLine {
    /// On stderr, if that is a terminal.
    pub(super) fn on_stderr() -> Self {
        Self::drawn(io::stderr().is_terminal().then(ProgressDrawTarget::stderr))
    }

    /// For `run`: the program writes where we do, so the line goes to the terminal itself, and only if neither of the
    /// streams that the program has from us leads there.
    pub(super) fn beside_program(shares_terminal: bool) -> Self {
        if shares_terminal {
            return Self::drawn(None);
        }
        let terminal = ControllingTerminal::open();
        Self::drawn(terminal.map(|terminal| {
            ProgressDrawTarget::term_like_with_hz(Box::new(terminal), DRAWS_PER_SECOND)
        }))
    }

    /// On stderr, for work on a recording that is done: nobody else writes there any more.
    pub(crate) fn analysing() -> Self {
        let line = Self::on_stderr();
        if let Some(bar) = &line.bar {
            bar.set_message("reading the recording and the debug information");
        }
        line
    }

    fn drawn(target: Option<ProgressDrawTarget>) -> Self {
        let bar = target.map(|target| {
            let bar = ProgressBar::with_draw_target(None, target);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        Self { bar, said: false }
    }

    /// Shows how far the recording is. Where there is no line to show it, what must be known is said once.
    pub(super) fn update(&mut self, now: &Progress) {
        let Some(bar) = &self.bar else {
            if let Some(why) = now.nothing_yet.as_ref().filter(|_| !self.said) {
                self.said = true;
                output::say(&format!(
                    "hitm: nothing to measure yet: {why}; sampling on (Ctrl-C ends that, and so does --for SECONDS)"
                ));
            }
            return;
        };
        let hottest = now.hottest.as_ref().map_or_else(String::new, |hottest| {
            format!(
                ", hottest line so far {} in {}",
                hottest.line, hottest.place
            )
        });
        let seconds = now.elapsed.as_secs_f64();
        let samples = now.samples;
        bar.set_message(match now.phase {
            Phase::Sampling => match &now.nothing_yet {
                Some(why) => format!("{seconds:.0} s, nothing to measure yet: {why}"),
                None => format!("{samples} samples, {seconds:.0} s{hottest}"),
            },
            Phase::Planning => {
                format!("{samples} samples, {seconds:.0} s, looking who shares what")
            }
            Phase::Window {
                window,
                windows,
                group,
                groups,
            } => format!(
                "group {group} of {groups}: window {window} of {windows} {}",
                gauge(window, windows)
            ),
        });
    }

    /// Takes the line away.
    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// How much of it is done, as a bar.
fn gauge(done: u32, all: u32) -> String {
    const CELLS: usize = 24;
    let full = (CELLS * done.min(all) as usize) / all.max(1) as usize;
    format!("[{}{}]", "=".repeat(full), " ".repeat(CELLS - full))
}

/// The terminal that the session belongs to, whatever stdout and stderr are.
#[derive(Debug)]
struct ControllingTerminal(File);

impl ControllingTerminal {
    /// Opens it if this process may draw on it now: a background job may not.
    fn open() -> Option<Self> {
        let terminal = File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        let foreground = nix::unistd::tcgetpgrp(&terminal).ok()?;
        (foreground == nix::unistd::getpgrp()).then_some(Self(terminal))
    }

    fn put(&self, text: &str) -> io::Result<()> {
        io::Write::write_all(&mut &self.0, text.as_bytes())
    }
}

impl TermLike for ControllingTerminal {
    fn width(&self) -> u16 {
        terminal_size::terminal_size_of(&self.0).map_or(80, |(width, _)| width.0)
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        if n == 0 {
            Ok(())
        } else {
            self.put(&format!("\x1b[{n}A"))
        }
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        if n == 0 {
            Ok(())
        } else {
            self.put(&format!("\x1b[{n}B"))
        }
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        if n == 0 {
            Ok(())
        } else {
            self.put(&format!("\x1b[{n}C"))
        }
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        if n == 0 {
            Ok(())
        } else {
            self.put(&format!("\x1b[{n}D"))
        }
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.put(&format!("{text}\r\n"))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.put(text)
    }

    fn clear_line(&self) -> io::Result<()> {
        self.put("\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        io::Write::flush(&mut &self.0)
    }
}
