//! Workloads for [`doradd`], the deterministic parallel runtime: what the binaries `ycsb` and `tpcc` are made of.
