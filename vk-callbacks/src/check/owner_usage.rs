//! The usage of one owner's callbacks, for callbacks that no bridge counts (LC6).

#![forbid(unsafe_code)]

use alloc_core::{Scope, ScopeUsage};

/// Bytes and blocks of one owner, as requested. Exact while no callback of the owner runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerUsage {
    scopes: [ScopeUsage; Scope::COUNT],
    total: ScopeUsage,
}

impl OwnerUsage {
    /// The usage of this scope.
    #[must_use]
    pub fn scope(&self, scope: Scope) -> ScopeUsage {
        self.scopes.get(scope.index()).copied().unwrap_or_default()
    }

    /// All scopes together, invalid ones included; its peak is that of the sum, and exact.
    #[must_use]
    pub const fn total(&self) -> ScopeUsage {
        self.total
    }

    /// A block of `old` bytes becomes one of `new` bytes: without `old` it comes, without `new` it goes. As in an account, growing a block
    /// adds its growth to the total.
    pub(super) fn change(&mut self, scope: Option<Scope>, old: Option<u64>, new: Option<u64>) {
        let grown = new.unwrap_or(0).saturating_sub(old.unwrap_or(0));
        let shrunk = old.unwrap_or(0).saturating_sub(new.unwrap_or(0));
        let (comes, goes) = (u64::from(old.is_none()), u64::from(new.is_none()));
        let of_scope = scope.and_then(|scope| self.scopes.get_mut(scope.index()));
        for usage in of_scope.into_iter().chain([&mut self.total]) {
            // A free that is counted before its allocation makes them negative for a moment.
            usage.live_bytes = usage.live_bytes.wrapping_add(grown).wrapping_sub(shrunk);
            usage.live_blocks = usage.live_blocks.wrapping_add(comes).wrapping_sub(goes);
            usage.peak_bytes = usage.peak_bytes.max(not_negative(usage.live_bytes));
            usage.total_bytes = usage.total_bytes.saturating_add(grown);
            usage.total_blocks = usage.total_blocks.saturating_add(comes);
        }
    }

    /// The usage for the reader.
    pub(super) fn read(&self) -> Self {
        let mut read = *self;
        for usage in read.scopes.iter_mut().chain([&mut read.total]) {
            usage.live_bytes = not_negative(usage.live_bytes);
            usage.live_blocks = not_negative(usage.live_blocks);
            usage.peak_blocks = usage.live_blocks;
        }
        read
    }
}

const fn not_negative(count: u64) -> u64 {
    if count > u64::MAX / 2 { 0 } else { count }
}
