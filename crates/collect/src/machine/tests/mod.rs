//! Texts of the kernel, refusals and figures in; what they mean out. And each probe once, alive, without a claim about
//! its figures: those depend on who else uses the machine.

mod decisions;
mod live;
mod texts;
