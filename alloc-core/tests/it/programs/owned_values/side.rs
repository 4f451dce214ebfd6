//! What the backing does with the context that an operation is about.

use std::cell::Cell;

use alloc_core::{ContextHandle, HostError};

use super::model::OwnedModel;
use crate::programs::side::visit_context;
use testkit::programs::Aim;

/// The context that the operation now running is about, and what its table of values has grown by.
pub(super) struct Side {
    aim: Aim<(usize, ContextHandle)>,
    /// Of the context aimed at: bytes and blocks.
    grown: Cell<(usize, (u64, u64))>,
}

impl Side {
    pub(super) const fn new() -> Self {
        Self { aim: Aim::idle(), grown: Cell::new((0, (0, 0))) }
    }

    pub(super) fn visit(&self) {
        self.aim.visit(|(at, context), number| {
            if number % 3 != 0 {
                visit_context(context, number / 3);
                return;
            }
            let before = context.usage().scope(context.scope());
            give_a_value(context, number);
            let after = context.usage().scope(context.scope());
            let (_, (bytes, blocks)) = self.grown.get();
            let more = (after.live_bytes - before.live_bytes, after.live_blocks - before.live_blocks);
            self.grown.set((*at, (bytes + more.0, blocks + more.1)));
        });
    }

    pub(super) fn visits(&self) -> u64 {
        self.aim.visits()
    }

    pub(super) fn grown(&self, at: usize) -> (u64, u64) {
        let (of, grown) = self.grown.get();
        if of == at { grown } else { (0, 0) }
    }
}

/// A value comes and goes, and those that are there do not notice.
fn give_a_value(context: &ContextHandle, number: u64) {
    let (closed, values) = (context.is_closed(), context.owned_values());
    match context.own([number; 6]) {
        Ok(id) => {
            assert!(!closed, "a closed context took a value");
            assert_eq!(context.owned_values(), values + 1);
            assert_eq!(*context.get(id).expect("just given"), [number; 6]);
            assert_eq!(context.remove(id).expect("just given"), [number; 6]);
            assert_eq!(context.get(id).err().map(|error| matches!(error, HostError::Misuse(_))), Some(true));
        }
        Err(refused) => {
            assert_eq!(refused.value, [number; 6], "a refused value is given back");
            match refused.error {
                HostError::Closed { .. } => assert!(closed),
                HostError::OverBudget { short_by, .. } => assert!(short_by > 0),
                error => panic!("{error}"),
            }
        }
    }
    assert_eq!(context.owned_values(), values);
}

impl OwnedModel {
    /// The operation is about context `at`.
    pub(super) fn aim(&mut self, at: usize) {
        if self.side.is_some() {
            self.node(at).held += 1;
            let handle = self.nodes[&at].handle();
            self.aim_instead(Some((at, handle)));
        }
    }

    /// From now on the backing does nothing meanwhile.
    pub(super) fn aim_at_nothing(&mut self) {
        self.aim_instead(None);
        self.side = None;
    }

    fn aim_instead(&mut self, new: Option<(usize, ContextHandle)>) {
        let Some(side) = self.side.clone() else {
            return;
        };
        let before = side.aim.replace(new);
        let (of, grown) = side.grown.take();
        if let Some((at, handle)) = before {
            let node = self.node(at);
            assert!(of == at || grown == (0, 0));
            (node.table.0, node.table.1) = (node.table.0 + grown.0, node.table.1 + grown.1);
            node.held -= 1;
            drop(handle);
            self.bury();
        }
    }
}
