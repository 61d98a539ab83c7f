//! Instructions and registers → memory accesses.

mod boundaries;
mod cases;
mod oracle;
