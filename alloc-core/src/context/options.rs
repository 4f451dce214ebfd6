//! The options of a new context.

use core::fmt;

use super::backing::Backing;
use crate::budget::Budget;
use crate::host::HostAllocator;
use crate::scope::Scope;

/// Name, label, scope, budget and allocator of a new context. Options that are not set are inherited from the parent.
#[derive(Clone, Copy)]
#[must_use]
pub struct ContextOptions<'a> {
    pub(super) name: &'static str,
    pub(super) label: Option<&'a str>,
    pub(super) scope: Option<Scope>,
    pub(super) budget: Option<Budget>,
    pub(super) backing: Option<Backing>,
}

impl<'a> ContextOptions<'a> {
    /// A context called `name`; names need not be unique.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            label: None,
            scope: None,
            budget: None,
            backing: None,
        }
    }

    /// A second name, known only at run time and copied into memory of the parent. An empty label is none.
    pub const fn label(mut self, label: &'a str) -> Self {
        self.label = Some(label);
        self
    }

    /// The scope of requests that name none; inherited otherwise ([`Scope::Instance`] for a root).
    pub const fn scope(mut self, scope: Scope) -> Self {
        self.scope = Some(scope);
        self
    }

    /// A limit on this context and all below it. [`Budget::limit`]`(u64::MAX)` is no limit.
    pub const fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// Uses `allocator` instead of the parent's. The context's own small record still comes from the parent. A root ignores this option.
    pub fn allocator_static<A: HostAllocator + Sync>(mut self, allocator: &'static A) -> Self {
        self.backing = Some(Backing::of(allocator));
        self
    }

    /// As [`allocator_static`](Self::allocator_static), for an allocator that is not static.
    ///
    /// # Safety
    /// For every context that is created from these options (they can be copied), `allocator` meets the requirements of
    /// [`Context::root`](crate::Context::root) for its backing, with [`try_close`](crate::Context::try_close) in the place of `close_root`.
    pub unsafe fn allocator<A: HostAllocator + Sync>(mut self, allocator: &A) -> Self {
        self.backing = Some(Backing::of(allocator));
        self
    }
}

impl fmt::Debug for ContextOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextOptions")
            .field("name", &self.name)
            .field("label", &self.label)
            .field("scope", &self.scope)
            .field("budget", &self.budget)
            .field("own_allocator", &self.backing.is_some())
            .finish()
    }
}
