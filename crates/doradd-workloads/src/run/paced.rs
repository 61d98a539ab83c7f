//! A log whose transactions arrive when the schedule says.

use std::sync::atomic::Ordering;

use doradd::{Log, Next};

use crate::request::Request;
use crate::run::Plan;
use crate::run::arrivals::Schedule;
use crate::run::meter::{Arrival, Meter};

/// Another log's transactions with their arrival.
#[derive(Debug)]
pub(crate) struct Paced<'p, L> {
    log: L,
    meter: &'p Meter,
    plan: &'p Plan<'p>,
    schedule: Schedule,
    /// Nothing is taken after that, also of what was due before.
    end: u64,
}

impl<'p, L> Paced<'p, L> {
    pub(crate) fn new(log: L, meter: &'p Meter, plan: &'p Plan<'p>) -> Self {
        let end = plan.time.map_or(u64::MAX, |time| time.as_nanos() as u64);
        Self {
            log,
            meter,
            plan,
            schedule: Schedule::new(plan.arrivals, plan.seed),
            end,
        }
    }
}

impl<L: Log> Log for Paced<'_, L> {
    type Txn = Request<Arrival, L::Txn>;

    #[inline]
    fn next(&mut self) -> Next<Self::Txn> {
        // Relaxed: it only has to be seen soon.
        if self.plan.stop.load(Ordering::Relaxed) {
            return Next::End;
        }
        let now = self.meter.now();
        let arrival = self.schedule.due().unwrap_or(now);
        if now >= self.end {
            return Next::End;
        }
        if arrival > now {
            return Next::NotYet;
        }
        match self.log.next() {
            Next::Txn(transaction) => {
                self.schedule.advance();
                self.meter.taken(now - arrival);
                Next::Txn(Request {
                    tag: Arrival(arrival),
                    transaction,
                })
            }
            Next::NotYet => Next::NotYet,
            Next::End => Next::End,
        }
    }
}
