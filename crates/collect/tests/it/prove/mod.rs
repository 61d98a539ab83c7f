//! Windows with real programs: what is recorded, and that everything is as it was afterwards.

mod newborns;
mod refusals;
mod restored;
mod support;
