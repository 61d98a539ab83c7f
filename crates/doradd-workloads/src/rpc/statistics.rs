//! What a server counts, and what it says while it runs.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// What a server has done; every figure is a count since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Statistics {
    /// Connections accepted.
    pub connections: u64,
    /// Connections at most at the same time.
    pub peak_connections: u64,
    /// Transactions that got a place in the order.
    pub accepted: u64,
    /// Transactions at most that were accepted and had not ended.
    pub peak_in_flight: u64,
    /// Transactions that were executed to their end.
    pub executed: u64,
    /// Transactions whose body panicked.
    pub panicked: u64,
    /// Transactions that were not run at their place in the order.
    pub not_run: u64,
    /// Requests that got no place in the order, because of a key or a write mask.
    pub refused: u64,
    /// Requests for the state.
    pub states: u64,
    /// Connections that sent bytes which are no frame.
    pub malformed: u64,
    /// Connections that broke, or ended by a time limit.
    pub broken: u64,
    /// Replies that could not be sent, because their connections were gone.
    pub undelivered: u64,
    /// Times the process had no file descriptor left for a connection.
    pub out_of_descriptors: u64,
    /// Times the thread that answers fell asleep.
    pub sleeps: u64,
}

/// Something that the operator of a server wants to know at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// There is no file descriptor for a further connection.
    OutOfDescriptors {
        /// How many connections there are.
        connections: usize,
    },
    /// There are as many connections as allowed.
    OutOfPlaces {
        /// How many connections there are.
        connections: usize,
    },
    /// New connections are accepted again.
    AcceptsAgain,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfDescriptors { connections } => write!(
                f,
                "no file descriptor for another connection beside the {connections} there are: new ones wait until one \
                 ends; raise the limit with `ulimit -n` and start again to serve more at once"
            ),
            Self::OutOfPlaces { connections } => write!(
                f,
                "{connections} connections, as many as allowed: new ones wait until one ends; raise the limit with \
                 `--connections`"
            ),
            Self::AcceptsAgain => write!(f, "new connections are accepted again"),
        }
    }
}
