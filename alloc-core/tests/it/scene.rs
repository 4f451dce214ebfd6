//! What many tests begin with, and values that say when they go.

use std::alloc::{Layout, System};
use std::sync::{Arc, Mutex};

use alloc_core::{Budget, Context, ContextHandle, ContextOptions, FromGlobalAlloc, Scope, held_state_locks};

use crate::witness::Witness;

pub(crate) static SYSTEM: FromGlobalAlloc<System> = FromGlobalAlloc::SYSTEM;

pub(crate) fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("a layout")
}

pub(crate) fn root() -> Context {
    Context::root_static(&SYSTEM, ContextOptions::new("root")).expect("memory")
}

pub(crate) fn root_over(witness: &Witness) -> Context {
    // SAFETY: every test ends the tree, or the process, before the witness goes.
    unsafe { Context::root(witness, ContextOptions::new("root").scope(Scope::Object)) }.expect("memory")
}

pub(crate) fn limited(parent: &ContextHandle, budget: Budget) -> Context {
    let options = ContextOptions::new("limited").budget(budget);
    parent.child_with(options).expect("memory")
}

pub(crate) fn charged(context: &ContextHandle) -> u64 {
    context.budget().expect("set").charged
}

/// Gives `context` a value that need not come back.
pub(crate) fn own(context: &ContextHandle, value: impl Send + 'static) {
    let owned = context.own(value).map_err(|refused| refused.error);
    owned.expect("memory");
}

/// Does something when it is destroyed.
pub(crate) struct Last<F: FnMut() + Send>(pub(crate) F);

impl<F: FnMut() + Send> Drop for Last<F> {
    fn drop(&mut self) {
        assert_eq!(held_state_locks(), 0, "a destructor runs outside of any lock");
        (self.0)();
    }
}

/// What was destroyed, in order.
#[derive(Clone, Default)]
pub(crate) struct DropLog(Arc<Mutex<Vec<u32>>>);

impl DropLog {
    pub(crate) fn note(&self, number: u32) {
        self.0.lock().expect("no panic inside").push(number);
    }
    /// A value that notes its number when it goes.
    pub(crate) fn value(&self, number: u32) -> Last<impl FnMut() + Send + use<>> {
        self.panicking(number, false)
    }
    pub(crate) fn panicking(&self, number: u32, panics: bool) -> Last<impl FnMut() + Send + use<>> {
        let log = self.clone();
        Last(move || {
            log.note(number);
            assert!(!panics, "value {number} panics");
        })
    }
    pub(crate) fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock().expect("no panic inside"))
    }
}
