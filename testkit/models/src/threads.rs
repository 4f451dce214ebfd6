//! Threads that carry their table with them, as a thread-local would.

use crate::account::{AccountTable, ScopeUsage, read_row};
use crate::context::ContextNode;
use crate::scope::Scope;

/// The exit hook: the model ends its threads by hand ([`Thread::exit`]).
pub(crate) fn on_exit() -> bool {
    true
}

/// A thread that counts.
#[derive(Clone, Copy)]
pub(crate) struct Thread(&'static AccountTable);

impl Thread {
    /// Never freed: a mutant may look at it late.
    pub(crate) fn start() -> Self {
        Self(Box::leak(Box::new(AccountTable::new())))
    }

    /// As an allocation does after the backing returned.
    pub(crate) fn takes(self, node: &ContextNode, bytes: u64) {
        let tag = node.tag(Scope::Object);
        let entry = self.0.find(tag).or_else(|| self.0.open(node, Scope::Object));
        entry.expect("a running thread has a table").record_alloc(bytes, 1);
    }

    /// As a free does.
    pub(crate) fn gives_back(self, node: &ContextNode, bytes: u64) {
        let tag = node.tag(Scope::Object);
        let entry = self.0.find(tag).or_else(|| self.0.open(node, Scope::Object));
        entry.expect("a running thread has a table").record_free(bytes, 1);
    }

    /// Its thread-locals are destroyed.
    pub(crate) fn exit(self) {
        self.0.detach();
    }
}

/// The account of a node, asked by anybody.
pub(crate) fn account(node: &ContextNode) -> ScopeUsage {
    read_row(node.row(Scope::Object), node.tag(Scope::Object))
}
