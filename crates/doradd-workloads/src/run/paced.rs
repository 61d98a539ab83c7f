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
    /// Whether the runtime knows that nothing is due now, and has passed on what it has in hand.
    told: bool,
}

/// From how many nanoseconds before a transaction is due on the dispatcher is kept awake for it. The runtime sleeps for
/// moments when there is nothing yet, from which the system wakes it this much late; that would be measured as latency.
const AWAKE_NS: u64 = 200_000;
/// Looks at the clock between two offers of the processor to others.
const LOOKS: u32 = 64;

impl<'p, L> Paced<'p, L> {
    pub(crate) fn new(log: L, meter: &'p Meter, plan: &'p Plan<'p>) -> Self {
        let end = plan.time.map_or(u64::MAX, |time| time.as_nanos() as u64);
        Self {
            log,
            meter,
            plan,
            schedule: Schedule::new(plan.arrivals, plan.seed),
            end,
            told: false,
        }
    }
}

impl<L> Paced<'_, L> {
    /// Waits for a transaction that is due soon; gives the time, which is before that if the run is to end.
    fn await_due(&self, due: u64) -> u64 {
        loop {
            for _ in 0..LOOKS {
                let now = self.meter.now();
                if now >= due {
                    return now;
                }
                std::hint::spin_loop();
            }
            if self.plan.stop.load(Ordering::Relaxed) {
                return self.meter.now();
            }
            std::thread::yield_now();
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
        let mut now = self.meter.now();
        let arrival = self.schedule.due().unwrap_or(now);
        if now >= self.end {
            return Next::End;
        }
        if arrival > now && self.told && arrival - now < AWAKE_NS {
            now = self.await_due(arrival);
        }
        self.told = arrival > now;
        if self.told {
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
