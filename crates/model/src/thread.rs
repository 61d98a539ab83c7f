//! Processes and threads, by the kernel's numbers and by ours.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The kernel's number of a process.
    Pid
}
number! {
    /// The kernel's number of a thread; handed out again after the thread has ended.
    Tid
}
number! {
    /// One thread of a recording. Unlike a [`Tid`] it is never used twice: a thread after `exec` is a new one.
    ThreadId
}
number! {
    /// One address space of a recording: a process between two `exec`s.
    SpaceId
}
