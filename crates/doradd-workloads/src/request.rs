//! What goes through the runtime: a transaction, with a tag for whoever wants to know when it has ended.
//!
//! The same state machine serves a log that is replayed to measure latencies, a server that owes its clients replies,
//! and tests: they differ in the tag they give each transaction and in the [`Sink`] that is told of its end.

use std::sync::Arc;

use doradd::Sequence;

/// A transaction of any kind, and a tag that comes back when its body has ended.
///
/// The tag is first in memory: it is all of a request that a worker needs, and the runtime's record begins with what
/// workers need. The transaction itself is read by the dispatcher only, which names its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Request<T, B> {
    /// Comes back to the [`Sink`].
    pub tag: T,
    /// What is to be done.
    pub transaction: B,
}

/// Who is told that a body has ended.
///
/// ```
/// use std::sync::Mutex;
///
/// use doradd::Sequence;
/// use doradd_workloads::request::{Outcome, Sink};
///
/// /// Keeps what each client is owed, by the client's number.
/// struct Replies(Mutex<Vec<(u32, Outcome)>>);
///
/// impl Sink<u32> for Replies {
///     fn ended(&self, client: &u32, _: Sequence, outcome: Outcome) {
///         self.0.lock().unwrap().push((*client, outcome));
///     }
/// }
/// ```
pub trait Sink<T>: Sync {
    /// A body has done all its work on its rows. Called once per transaction, on the thread that ran it, before its rows
    /// are released: transactions that share a row are told of in the order of the log, others at the same time by
    /// several threads. Should not wait: others may wait for the rows.
    fn ended(&self, tag: &T, sequence: Sequence, outcome: Outcome);
}

/// Nobody wants to know.
impl<T> Sink<T> for () {
    #[inline]
    fn ended(&self, _: &T, _: Sequence, _: Outcome) {}
}

impl<T, S: Sink<T> + Send> Sink<T> for Arc<S> {
    #[inline]
    fn ended(&self, tag: &T, sequence: Sequence, outcome: Outcome) {
        S::ended(self, tag, sequence, outcome);
    }
}

/// How a body ended: the same in every run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It is done; the number depends on all that the transaction read.
    Done(u64),
    /// It panics, once the sink has returned. Only workloads that were told to do so panic.
    Panics,
}
