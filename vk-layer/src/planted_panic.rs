//! A panic on order, for tests of the fence, or other work in the middle of the layer's own.

#![forbid(unsafe_code)]
#![expect(
    clippy::panic,
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a panic is what this is for, and only tests have it"
)]

use std::cell::Cell;
use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

pub use crate::hooks::HookPhase;

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

/// The value names a command and a phase, as `vkCreateBuffer Before`: a linked program panics there.
const VARIABLE: &str = "STEWARD_PLANTED_PANIC";

fn strike_named(command: &str, phase: HookPhase) {
    static NAMED: OnceLock<Option<String>> = OnceLock::new();
    static IS_DONE: AtomicBool = AtomicBool::new(false);
    let Some(named) = NAMED.get_or_init(|| env::var(VARIABLE).ok()) else {
        return;
    };
    if *named == format!("{command} {phase:?}") && !IS_DONE.swap(true, Ordering::Relaxed) {
        panic!("planted");
    }
}

pub(crate) fn strike(command: &str, phase: HookPhase) {
    strike_named(command, phase);
    let Some((planted, at, work)) = PLANTED.get() else {
        return;
    };
    if (planted, at) == (command, phase) {
        PLANTED.set(None);
        work();
    }
}
