//! YCSB as a deterministic state machine: transactions that read and write ten rows each.

mod app;
mod generate;
mod row;
mod zipf;

pub use app::{Panics, Ycsb};
pub use generate::{
    Contention, Generator, HOT_ROWS, MAX_ROWS, Profile, RowsError, WriteRatio, WriteRatioError,
};
pub use row::Row;
pub(crate) use row::fold;
pub(crate) use zipf::unit;
pub use zipf::{Theta, ThetaError, Zipf};
