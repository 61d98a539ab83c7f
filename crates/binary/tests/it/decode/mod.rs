//! Instructions and registers → memory accesses.

mod cases;
mod oracle;
