//! What the debug information says.

mod aggregates;
mod globals;
mod lines;
mod paths;
mod variables;
