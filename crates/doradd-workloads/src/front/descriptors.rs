//! File descriptors: one for each connection.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Lets this process have as many file descriptors as the system allows it. Where it allows no more, nothing changes, and
/// whoever needs more says so.
pub fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
