//! A panic on order, for tests of the fence.

#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::disallowed_macros,
    reason = "a panic is what this is for"
)]

use std::cell::Cell;

pub use crate::hooks::HookPhase;

thread_local! {
    static PLANTED: Cell<Option<(&'static str, HookPhase)>> = const { Cell::new(None) };
}

/// The next `command` that this thread calls panics in the phase, once.
pub fn plant_panic(command: &'static str, phase: HookPhase) {
    PLANTED.set(Some((command, phase)));
}

pub(crate) fn strike(command: &str, phase: HookPhase) {
    if PLANTED.get() == Some((command, phase)) {
        PLANTED.set(None);
        panic!("planted");
    }
}
