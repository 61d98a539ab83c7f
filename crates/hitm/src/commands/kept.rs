//! What was measured so far, in the JSON file, while it is being measured: it is there even if hitm is killed.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::found::{self, Out, To};
use crate::output;

/// Writing takes milliseconds; short runs are not to wait for it each time.
const EVERY: Duration = Duration::from_secs(1);

/// The file that it is kept in.
pub(super) struct Kept<'a> {
    file: Option<&'a Path>,
    written: Option<Instant>,
}

impl<'a> Kept<'a> {
    /// Keeps nothing if JSON goes to stdout, to a pipe or a device, or nowhere.
    pub(super) fn new(to: Option<To<'a>>) -> Self {
        let file = match to {
            Some(To::File(path)) => {
                let is_file = |path: &Path| path.metadata().map_or(true, |it| it.is_file());
                Some(path).filter(|path| is_file(path))
            }
            Some(To::Stdout) | None => None,
        };
        Self {
            file,
            written: None,
        }
    }

    /// Writes what there is, unless it was written a moment ago.
    pub(super) fn keep(&mut self, write: impl FnOnce(&mut Out) -> io::Result<()>) {
        let due = self.written.is_none_or(|at| at.elapsed() >= EVERY);
        let Some(file) = self.file.filter(|_| due) else {
            return;
        };
        self.written = Some(Instant::now());
        if let Err(error) = found::document(To::File(file), "--json", write) {
            output::say(&format!(
                "hitm: what was measured so far is not kept, should hitm be killed: {error:#}"
            ));
            // Said once; at the end it is tried again.
            self.file = None;
        }
    }
}
