//! The terminal: colour, errors, width.

use std::io;
use std::os::fd::AsFd;

use clap::ColorChoice;
use hitm_collect::CollectError;

/// Sets for the whole process whether styles are kept; `NO_COLOR` and pipes are honoured by `auto`.
pub(crate) fn choose_colour(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// Whether it is only that nobody reads our output any more.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|it| it.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// Prints an error and what to type next.
pub(crate) fn error(error: &anyhow::Error) {
    say(&format!("hitm: {error:#}"));
    if let Some(error) = error.downcast_ref::<CollectError>() {
        say(&format!("  try: {}", error.remedy()));
    }
}

/// What is said when hitm itself is at fault.
pub(crate) fn apologise_for_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let version = env!("CARGO_PKG_VERSION");
        say(&format!(
            "hitm: sorry, this is a fault of hitm {version} itself: {panic}\n  \
             please report these lines, the command, and the recording if you may: `hitm report FILE` may show it again"
        ));
    }));
}

/// A line for a person, on stderr. That nobody can read it is no reason to fail.
pub(crate) fn say(line: &str) {
    use io::Write as _;
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Columns of the terminal behind a stream, or what suits a file.
pub(crate) fn width(of: &impl AsFd) -> u16 {
    const OF_A_FILE: u16 = 120;
    let given = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let measured = || terminal_size::terminal_size_of(of).map(|(width, _)| width.0);
    given.or_else(measured).unwrap_or(OF_A_FILE).clamp(60, 200)
}
