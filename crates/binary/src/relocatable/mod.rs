//! Object files before they are linked: what decides the order of their variables, and objects that are nothing but space.
//!
//! A linker lays variables out in the order of the object files on its command line, and within a file in the order of
//! the file's sections. Both can be changed without compiling anything again, which is how `hitm shake` asks what
//! a layout does.

mod headers;
mod order;
mod own;
mod padding;

pub use headers::{ObjectKind, object_kind};
pub use order::reorder_data;
pub use own::defined_variables;
pub use padding::{PAD_BSS, PAD_DATA, Padding, padding_object};
