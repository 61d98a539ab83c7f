//! What the debug information says.

mod globals;
mod lines;
