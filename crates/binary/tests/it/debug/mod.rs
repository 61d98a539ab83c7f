//! What the debug information says.

mod aggregates;
mod damage;
mod globals;
mod layouts;
mod lines;
mod lto;
mod paths;
mod variables;
