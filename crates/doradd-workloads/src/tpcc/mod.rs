//! TPC-C's New-Order and Payment transactions as a deterministic state machine.
//!
//! Clauses are those of the TPC Benchmark C Standard Specification, revision 5.11. What is different here, because there is
//! a log and no terminals:
//!
//! - Two of the five transactions, in a ratio that the log decides. Nothing is delivered.
//! - No New-Order rolls back: the log has no items that do not exist (clause 2.4.1.4 wants one of a hundred).
//! - Identifiers begin with 0. Money is whole cents, rates are hundredths of a percent.
//! - A district keeps its latest [`KEPT_ORDERS`] orders with their lines, and counts of all: memory does not grow.
//! - The history table is kept as counts and sums. A customer's last name is a number, as the specification makes them of.
//! - Items are read as rows of a table, so a New-Order of 15 lines names 33 rows.

mod app;
mod audit;
mod generate;
mod populate;
mod rows;
mod transaction;

pub use app::Tpcc;
pub use generate::{Generator, PaymentRatio, PaymentRatioError, Profile};
pub use rows::{Cents, KEPT_ORDERS};
pub use transaction::{Line, MAX_LINES, NewOrder, Payer, Payment, Transaction, Warehouses};

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u64 = 10;
/// Customers of a district.
pub(crate) const CUSTOMERS: u64 = 3000;
/// Items, and stocks of a warehouse.
pub(crate) const ITEMS: u64 = 100_000;
/// Last names.
pub(crate) const NAMES: u64 = 1000;
