//! The fixtures are what they say, and the judge says what is wrong with a report.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod fixtures;
mod judging;
mod proving;
mod running;
mod story1;
