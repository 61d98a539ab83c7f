//! Transactions to order, with the distributions of clauses 2.4.1 and 2.5.1.

use doradd::Random;
use thiserror::Error;

use crate::tpcc::populate::{C_RUN, nurand};
use crate::tpcc::transaction::{Line, NewOrder, Payer, Payment, Transaction, Warehouses};
use crate::tpcc::{CUSTOMERS, DISTRICTS, ITEMS, MAX_LINES, NAMES};

/// What part of the transactions are payments, from 0 to 1.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct PaymentRatio(f64);

/// It is no part of a whole.
#[derive(Error, Clone, Copy, PartialEq, Debug)]
#[error(
    "the ratio of payments is {0}: it is the part of the transactions that are payments, from 0 to 1"
)]
pub struct PaymentRatioError(f64);

impl PaymentRatio {
    /// A ratio.
    ///
    /// # Errors
    /// If it is not from 0 to 1.
    pub fn new(ratio: f64) -> Result<Self, PaymentRatioError> {
        if (0.0..=1.0).contains(&ratio) {
            Ok(Self(ratio))
        } else {
            Err(PaymentRatioError(ratio))
        }
    }
}

/// What transactions are like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Profile {
    /// How many warehouses there are; at least one is assumed.
    pub warehouses: Warehouses,
    /// What random numbers start from.
    pub seed: u64,
    /// How many transactions are payments.
    pub payments: PaymentRatio,
}

/// An endless source of transactions.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    warehouses: u16,
    payments: f64,
    c_customer: u64,
    c_item: u64,
}

impl Generator {
    /// Transactions of a profile.
    #[must_use]
    pub fn new(profile: &Profile) -> Self {
        let mut random = Random::new(profile.seed);
        // The constants of NURand are drawn once (clause 2.1.6).
        let (c_customer, c_item) = (random.below(1024), random.below(8192));
        Self {
            random,
            warehouses: profile.warehouses.0.max(1),
            payments: profile.payments.0,
            c_customer,
            c_item,
        }
    }

    /// The next one.
    pub fn draw(&mut self) -> Transaction {
        let payment = crate::ycsb::unit(&mut self.random) < self.payments;
        let warehouse = self.random.below(self.warehouses.into()) as u16;
        let district = self.random.below(DISTRICTS) as u8;
        if payment {
            Transaction::Payment(self.payment(warehouse, district))
        } else {
            Transaction::NewOrder(self.new_order(warehouse, district))
        }
    }

    /// Clause 2.4.1.
    fn new_order(&mut self, warehouse: u16, district: u8) -> NewOrder {
        let customer = self.customer();
        let n = 5 + self.random.below(MAX_LINES as u64 - 4) as usize;
        let mut lines = [Line::default(); MAX_LINES];
        for line in lines.iter_mut().take(n) {
            *line = Line {
                item: nurand(&mut self.random, 8191, 0, ITEMS - 1, self.c_item) as u32,
                // One of a hundred comes from elsewhere.
                supply: self.elsewhere(warehouse, 1),
                quantity: 1 + self.random.below(10) as u8,
            };
        }
        NewOrder::new(warehouse, district, customer, &lines[..n])
    }

    /// Clause 2.5.1.
    fn payment(&mut self, warehouse: u16, district: u8) -> Payment {
        let customer_warehouse = self.elsewhere(warehouse, 15);
        let customer_district = if customer_warehouse == warehouse {
            district
        } else {
            self.random.below(DISTRICTS) as u8
        };
        let payer = if self.random.below(100) < 60 {
            Payer::Name(nurand(&mut self.random, 255, 0, NAMES - 1, C_RUN) as u16)
        } else {
            Payer::Number(self.customer())
        };
        Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            payer,
            amount: 100 + self.random.below(499_901) as u32,
        }
    }

    fn customer(&mut self) -> u16 {
        nurand(&mut self.random, 1023, 0, CUSTOMERS - 1, self.c_customer) as u16
    }

    /// With that percentage another warehouse than home, if there is one.
    fn elsewhere(&mut self, home: u16, percent: u64) -> u16 {
        if self.random.below(100) >= percent || self.warehouses == 1 {
            return home;
        }
        let other = self.random.below(u64::from(self.warehouses) - 1) as u16;
        other + u16::from(other >= home)
    }
}

impl Iterator for Generator {
    type Item = Transaction;

    fn next(&mut self) -> Option<Transaction> {
        Some(self.draw())
    }
}
