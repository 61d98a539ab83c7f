//! Story 2 as a program: a collector of statistics whose counters share lines, or do not.
