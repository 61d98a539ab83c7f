//! YCSB as a deterministic state machine: transactions that read and write ten rows each.

mod app;
mod row;

pub use app::{Panics, Ycsb};
pub use row::Row;
