//! Telling a program's own code from the standard libraries that were inlined into it.

use hitm_model::SourceFrame;

/// Parts of the paths that the sources of the Rust and C++ standard libraries have in debug information.
const LIBRARY_PATHS: [&str; 4] = [
    "/rustc/",
    "/lib/rustlib/src/",
    "/include/c++/",
    "/library/core/src/",
];

/// Whether a frame is code of a standard library.
pub(crate) fn is_library(frame: &SourceFrame) -> bool {
    frame
        .line
        .as_ref()
        .is_some_and(|line| LIBRARY_PATHS.iter().any(|part| line.file.contains(part)))
}

/// The innermost frame of the program's own; of library code alone, the innermost.
pub(crate) fn own_frame(frames: &[SourceFrame]) -> Option<&SourceFrame> {
    frames
        .iter()
        .find(|frame| !is_library(frame))
        .or(frames.first())
}
