//! What a panicking body left behind.

use std::any::Any;

/// What becomes of the objects of a body that panicked, and so of later bodies that need them.
///
/// Either way the body's objects are released, the panic is counted, and the outcome is the same in every run of the
/// same log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnPanic {
    /// Objects stay as the body left them, and later bodies run with them.
    #[default]
    Continue,
    /// Objects that the body held for writing are poisoned; bodies that need one are not run, are counted as refused,
    /// and do not poison their other objects.
    Poison,
}

/// The message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let owned = || payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(owned)
        .unwrap_or("a panic without a message")
        .to_owned()
}
