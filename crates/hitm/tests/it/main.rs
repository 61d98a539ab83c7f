//! The command as a user runs it: on programs of known sharing, and on bad input.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod bad_input;
mod check;
mod check_rules;
mod compare;
mod compare_ends;
mod gate;
mod guardian;
mod history;
mod layout;
mod live;
mod odd_input;
mod prove;
mod prove_input;
mod scale;
mod seeds;
mod session;
mod shake;
mod shake_input;
