//! Instructions and registers → memory accesses.

mod boundaries;
mod cases;
mod inner_loops;
mod jump_tables;
mod loops;
mod oracle;
mod same;
mod stepped;
