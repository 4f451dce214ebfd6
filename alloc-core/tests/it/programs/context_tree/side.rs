//! What the backing does with the contexts of a tree, for the model to add.

use std::cell::RefCell;

use alloc_core::ContextHandle;

use crate::programs::side::{Visit, visit_context};
use testkit::programs::Aim;

/// The context that the operation now running is about, and what the backing has done with it.
pub(super) struct Side {
    aim: Aim<(usize, ContextHandle)>,
    done: RefCell<Vec<(usize, Visit)>>,
}

impl Side {
    pub(super) const fn new() -> Self {
        Self { aim: Aim::idle(), done: RefCell::new(Vec::new()) }
    }

    pub(super) fn aim(&self, at: Option<(usize, ContextHandle)>) -> Option<(usize, ContextHandle)> {
        self.aim.replace(at)
    }

    pub(super) fn visit(&self) {
        self.aim.visit(|(at, context), number| {
            let visit = visit_context(context, number);
            self.done.borrow_mut().push((*at, visit));
        });
    }

    pub(super) fn visits(&self) -> u64 {
        self.aim.visits()
    }

    pub(super) fn done(&self) -> Vec<(usize, Visit)> {
        self.done.take()
    }
}
