//! What a binary says about its lines before it runs: which variables share one, how a type lies on them.
//!
//! - `map`: symbols → lines with their objects.
//! - `types`: the places of members → padding, line borders, elements of arrays.
//! - `find`: what a user calls something → an address or types.

mod find;
mod map;
mod types;

pub use find::{Found, NotFound, find};
pub use map::{MapOptions, line_map, lines_around};
pub use types::type_view;

pub(crate) use map::{Placed, objects_in, parts_of, thread_locals};
