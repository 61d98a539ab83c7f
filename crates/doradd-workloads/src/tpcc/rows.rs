//! The rows of the tables: clause 1.3, as far as the two transactions read or write it.

use std::fmt;

use crate::tpcc::MAX_LINES;

/// Orders that a district keeps with their lines; of older ones only counts are kept.
pub const KEPT_ORDERS: usize = 1024;

/// Money.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cents(pub i64);

impl fmt::Display for Cents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let n = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:02}", n / 100, n % 100)
    }
}

impl std::ops::AddAssign for Cents {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl std::ops::SubAssign for Cents {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl std::iter::Sum for Cents {
    fn sum<I: Iterator<Item = Self>>(values: I) -> Self {
        Self(values.map(|it| it.0).sum())
    }
}

/// A tax or a discount in hundredths of a percent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Rate(pub(crate) u16);

/// What an order costs with its discount and its taxes (clause 2.4.2.2), rounded down to a cent.
pub(crate) fn total(sum: Cents, discount: Rate, taxes: [Rate; 2]) -> Cents {
    let taxed = 10_000 + i64::from(taxes[0].0) + i64::from(taxes[1].0);
    Cents(sum.0 * (10_000 - i64::from(discount.0)) * taxed / 100_000_000)
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[repr(align(64))]
pub(crate) struct Warehouse {
    pub(crate) ytd: Cents,
    pub(crate) tax: Rate,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[repr(align(64))]
pub(crate) struct District {
    pub(crate) ytd: Cents,
    pub(crate) next_order: u64,
    pub(crate) tax: Rate,
    /// Rows of the order table, of all time.
    pub(crate) orders: u64,
    /// The lines that these orders say they have.
    pub(crate) lines_of_orders: u64,
    /// Rows of the order-line table, of all time.
    pub(crate) order_lines: u64,
    /// Of all order lines.
    pub(crate) quantity: u64,
    /// Rows of the history table.
    pub(crate) payments: u64,
    /// Sum of their amounts.
    pub(crate) paid: Cents,
    /// The latest, each at the place that its number gives.
    pub(crate) latest: Box<[Order]>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Order {
    pub(crate) number: u64,
    /// The place in the log of the transaction that made it, for the date.
    pub(crate) entered: u64,
    pub(crate) customer: u16,
    pub(crate) n: u8,
    pub(crate) all_local: bool,
    pub(crate) lines: [OrderLine; MAX_LINES],
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct OrderLine {
    pub(crate) amount: Cents,
    pub(crate) item: u32,
    pub(crate) supply: u16,
    pub(crate) quantity: u8,
    pub(crate) district_info: [u8; 24],
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[repr(align(64))]
pub(crate) struct Customer {
    pub(crate) balance: Cents,
    pub(crate) paid: Cents,
    pub(crate) payments: u32,
    pub(crate) last_name: u16,
    pub(crate) discount: Rate,
    pub(crate) bad_credit: bool,
    pub(crate) first_name: [u8; 16],
    pub(crate) data: [u8; 500],
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[repr(align(64))]
pub(crate) struct Stock {
    pub(crate) quantity: i32,
    pub(crate) ytd: u32,
    pub(crate) orders: u32,
    pub(crate) remote_orders: u32,
    /// Whether its data has the word that marks a brand.
    pub(crate) original: bool,
    pub(crate) district_info: [[u8; 24]; 10],
    pub(crate) data: [u8; 50],
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[repr(align(64))]
pub(crate) struct Item {
    pub(crate) price: Cents,
    pub(crate) original: bool,
    pub(crate) name: [u8; 24],
    pub(crate) data: [u8; 50],
}
