//! Whether a run left behind what executing its log one by one leaves behind.

use doradd::{App, Log, ReplayError, StateDigest, replay_serial};
use schemars::JsonSchema;
use serde::Serialize;

use crate::request::Request;
use crate::run::meter::Arrival;

/// A state machine that can be looked at and started anew.
pub trait Machine: App {
    /// A fingerprint of its state.
    fn digest(&self) -> StateDigest;

    /// Makes it as it was in the beginning.
    fn restart(&mut self);

    /// What is inconsistent in its state by the rules of the workload, if anything is.
    fn inconsistencies(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// What the comparison with the serial oracle showed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub struct Verified {
    /// The digest of the state that the run left behind.
    pub digest: String,
    /// The digest of the state that executing the same transactions one by one leaves behind.
    pub serial_digest: String,
    /// Rules of the workload that the run's state breaks.
    pub inconsistencies: Vec<String>,
}

impl Verified {
    /// Whether all is as it should be.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.digest == self.serial_digest && self.inconsistencies.is_empty()
    }
}

/// Compares the state of a machine after a run with that after the same log one by one. The machine is left in the latter.
///
/// # Errors
/// As [`replay_serial`].
pub fn verify<M, B>(machine: &mut M, log: impl Log<Txn = B>) -> Result<Verified, ReplayError>
where
    M: Machine<Txn = Request<Arrival, B>>,
{
    let inconsistencies = machine.inconsistencies();
    let digest = machine.digest();
    machine.restart();
    replay_serial(AtOnce(log), &*machine)?;
    Ok(Verified {
        digest: digest.to_string(),
        serial_digest: machine.digest().to_string(),
        inconsistencies,
    })
}

/// A log without a schedule.
struct AtOnce<L>(L);

impl<L: Log> Log for AtOnce<L> {
    type Txn = Request<Arrival, L::Txn>;

    fn next(&mut self) -> doradd::Next<Self::Txn> {
        match self.0.next() {
            doradd::Next::Txn(transaction) => doradd::Next::Txn(Request {
                tag: Arrival(0),
                transaction,
            }),
            doradd::Next::NotYet => doradd::Next::NotYet,
            doradd::Next::End => doradd::Next::End,
        }
    }
}
