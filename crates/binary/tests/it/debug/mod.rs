//! What the debug information says.

mod aggregates;
mod damage;
mod globals;
mod lines;
mod lto;
mod paths;
mod variables;
