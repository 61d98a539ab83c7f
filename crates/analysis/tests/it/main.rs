//! Tests of the public interface.

mod verdicts;
