//! Bodies that panic on purpose should not fill the output.

use std::sync::Once;

/// The payload of a panic on purpose, which is not printed.
#[derive(Debug)]
pub(crate) struct OnPurpose;

/// Panics without a message on standard error.
pub(crate) fn panic_on_purpose() -> ! {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<OnPurpose>() {
                usual(info);
            }
        }));
    });
    std::panic::panic_any(OnPurpose)
}
