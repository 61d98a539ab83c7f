//! Instructions and registers → memory accesses.
