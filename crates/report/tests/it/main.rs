//! Reports through the public API.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod check;
mod comparison;
mod costs;
mod gate;
mod json;
mod layout;
mod reports;
mod sarif;
mod scale;
mod shake;
mod table;
mod table_120;
mod table_80;
mod table_cost;
