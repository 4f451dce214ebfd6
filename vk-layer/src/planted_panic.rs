//! A panic on order, for tests of the fence, or other work in the middle of the layer's own.

#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::disallowed_macros,
    reason = "a panic is what this is for"
)]

use std::cell::Cell;

pub use crate::hooks::HookPhase;

/// The command, the phase, what is done there.
type Planted = (&'static str, HookPhase, fn());

thread_local! {
    static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// The next `command` that this thread calls panics in the phase, once.
pub fn plant_panic(command: &'static str, phase: HookPhase) {
    plant_work(command, phase, || panic!("planted"));
}

/// The next `command` that this thread calls does `work` in the phase, once.
pub fn plant_work(command: &'static str, phase: HookPhase, work: fn()) {
    PLANTED.set(Some((command, phase, work)));
}

pub(crate) fn strike(command: &str, phase: HookPhase) {
    let Some((planted, at, work)) = PLANTED.get() else {
        return;
    };
    if (planted, at) == (command, phase) {
        PLANTED.set(None);
        work();
    }
}
