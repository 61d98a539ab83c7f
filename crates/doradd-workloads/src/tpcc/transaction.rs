//! A transaction of TPC-C, and the 128 bytes that it is in a log.
//!
//! ```text
//! offset  bytes  little-endian
//!      0      4  u32: 0xFFFFFF01 New-Order, 0xFFFFFF02 Payment (no key of a YCSB log is that large)
//!      4      2  u16: home warehouse
//!      6      1  u8: district
//!                New-Order                                    Payment
//!      7      1  u8: lines, 5 to 15                           u8: 0 customer by number, 1 by last name
//!      8      2  u16: customer                                u16: customer, or last name
//!     10         lines of 7 bytes: u32 item,                  u16: the customer's warehouse
//!                u16 supplying warehouse, u8 quantity         u8: the customer's district
//!     13                                                      u32: amount in cents
//! ```
//!
//! The rest is zero, and ignored by readers.

use crate::log::{Entry, Record, RecordFault};
use crate::tpcc::{CUSTOMERS, DISTRICTS, ITEMS, NAMES};

/// Lines of an order at most.
pub const MAX_LINES: usize = 15;
const MIN_LINES: u64 = 5;

/// How many warehouses there are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Warehouses(pub u16);

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transaction {
    /// Clause 2.4.
    NewOrder(NewOrder),
    /// Clause 2.5.
    Payment(Payment),
}

/// A customer orders items.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewOrder {
    /// The customer's warehouse.
    pub warehouse: u16,
    /// The customer's district.
    pub district: u8,
    /// The customer's number in it.
    pub customer: u16,
    n: u8,
    lines: [Line; MAX_LINES],
}

/// A line of an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Line {
    /// What is ordered.
    pub item: u32,
    /// Where it comes from.
    pub supply: u16,
    /// How many.
    pub quantity: u8,
}

/// A customer pays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payment {
    /// Where it is paid.
    pub warehouse: u16,
    /// Where it is paid.
    pub district: u8,
    /// Of the customer.
    pub customer_warehouse: u16,
    /// Of the customer.
    pub customer_district: u8,
    /// Which customer of that district.
    pub payer: Payer,
    /// In cents.
    pub amount: u32,
}

/// How a customer is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payer {
    /// By number.
    Number(u16),
    /// By last name: of those who have it, the one in the middle by first name.
    Name(u16),
}

const NEW_ORDER: u32 = 0xFFFF_FF01;
const PAYMENT: u32 = 0xFFFF_FF02;
const LINES: usize = 10;
const LINE_BYTES: usize = 7;

impl NewOrder {
    /// An order of up to 15 lines; further ones are left away.
    #[must_use]
    pub fn new(warehouse: u16, district: u8, customer: u16, lines: &[Line]) -> Self {
        let mut order = Self {
            warehouse,
            district,
            customer,
            n: lines.len().min(MAX_LINES) as u8,
            lines: [Line::default(); MAX_LINES],
        };
        for (to, from) in order.lines.iter_mut().zip(lines) {
            *to = *from;
        }
        order
    }

    /// What is ordered.
    #[must_use]
    #[inline]
    pub fn lines(&self) -> &[Line] {
        &self.lines[..usize::from(self.n)]
    }
}

impl Transaction {
    /// The record of this transaction.
    #[must_use]
    pub fn encode(&self) -> Record {
        let mut record = [0; size_of::<Record>()];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        match self {
            Self::NewOrder(order) => {
                put(0, &NEW_ORDER.to_le_bytes());
                put(4, &order.warehouse.to_le_bytes());
                put(6, &[order.district, order.n]);
                put(8, &order.customer.to_le_bytes());
                for (i, line) in order.lines().iter().enumerate() {
                    let at = LINES + LINE_BYTES * i;
                    put(at, &line.item.to_le_bytes());
                    put(at + 4, &line.supply.to_le_bytes());
                    put(at + 6, &[line.quantity]);
                }
            }
            Self::Payment(payment) => {
                put(0, &PAYMENT.to_le_bytes());
                put(4, &payment.warehouse.to_le_bytes());
                let (by_name, who) = match payment.payer {
                    Payer::Number(number) => (0, number),
                    Payer::Name(name) => (1, name),
                };
                put(6, &[payment.district, by_name]);
                put(8, &who.to_le_bytes());
                put(10, &payment.customer_warehouse.to_le_bytes());
                put(12, &[payment.customer_district]);
                put(13, &payment.amount.to_le_bytes());
            }
        }
        record
    }

    fn read(record: &Record) -> Result<Self, RecordFault> {
        let u16_at = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let (warehouse, district) = (u16_at(4), record[6]);
        match u32_at(0) {
            NEW_ORDER => {
                let n = record[7];
                within("number of lines", n, MIN_LINES, MAX_LINES as u64)?;
                let mut lines = [Line::default(); MAX_LINES];
                for (i, line) in lines.iter_mut().take(n.into()).enumerate() {
                    let at = LINES + LINE_BYTES * i;
                    *line = Line {
                        item: u32_at(at),
                        supply: u16_at(at + 4),
                        quantity: record[at + 6],
                    };
                }
                Ok(Self::NewOrder(NewOrder {
                    warehouse,
                    district,
                    customer: u16_at(8),
                    n,
                    lines,
                }))
            }
            PAYMENT => Ok(Self::Payment(Payment {
                warehouse,
                district,
                payer: match record[7] {
                    0 => Payer::Number(u16_at(8)),
                    1 => Payer::Name(u16_at(8)),
                    other => return Err(out_of_range("way to tell the customer", other, 0, 1)),
                },
                customer_warehouse: u16_at(10),
                customer_district: record[12],
                amount: u32_at(13),
            })),
            kind => Err(RecordFault::Kind(kind)),
        }
    }

    fn check(&self, Warehouses(warehouses): Warehouses) -> Result<(), RecordFault> {
        let warehouse = |number: u16| {
            if number < warehouses {
                return Ok(());
            }
            Err(RecordFault::Warehouse { number, warehouses })
        };
        let district = |district: u8| within("district", district, 0, DISTRICTS - 1);
        match self {
            Self::NewOrder(order) => {
                warehouse(order.warehouse)?;
                district(order.district)?;
                within("customer", order.customer, 0, CUSTOMERS - 1)?;
                order.lines().iter().try_for_each(|line| {
                    warehouse(line.supply)?;
                    within("item", line.item, 0, ITEMS - 1)?;
                    within("quantity", line.quantity, 1, 10)
                })
            }
            Self::Payment(payment) => {
                warehouse(payment.warehouse)?;
                warehouse(payment.customer_warehouse)?;
                district(payment.district)?;
                district(payment.customer_district)?;
                match payment.payer {
                    Payer::Number(number) => within("customer", number, 0, CUSTOMERS - 1)?,
                    Payer::Name(name) => within("last name", name, 0, NAMES - 1)?,
                }
                within("amount in cents", payment.amount, 100, 500_000)
            }
        }
    }
}

impl Entry for Transaction {
    type Bounds = Warehouses;

    #[inline]
    fn decode(record: &Record) -> Option<Self> {
        Self::read(record).ok()
    }

    fn checked(record: &Record, warehouses: Warehouses) -> Result<Self, RecordFault> {
        let transaction = Self::read(record)?;
        transaction.check(warehouses)?;
        Ok(transaction)
    }
}

fn within(
    what: &'static str,
    value: impl Into<u64> + Copy,
    low: u64,
    high: u64,
) -> Result<(), RecordFault> {
    if (low..=high).contains(&value.into()) {
        Ok(())
    } else {
        Err(out_of_range(what, value, low, high))
    }
}

fn out_of_range(what: &'static str, value: impl Into<u64>, low: u64, high: u64) -> RecordFault {
    RecordFault::OutOfRange {
        what,
        value: value.into(),
        low,
        high,
    }
}
