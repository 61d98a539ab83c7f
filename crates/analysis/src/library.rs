//! Telling a program's own code from the standard libraries that were inlined into it.

use hitm_model::SourceFrame;

/// The innermost frame of the program's own; of library code alone, the innermost.
pub(crate) fn own_frame(frames: &[SourceFrame]) -> Option<&SourceFrame> {
    frames
        .iter()
        .find(|frame| !frame.is_library())
        .or(frames.first())
}
