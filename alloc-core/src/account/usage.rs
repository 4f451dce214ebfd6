#![forbid(unsafe_code)]

use super::foreign::{ForeignKind, ForeignUsage};
use crate::scope::Scope;

/// The account of one context, or of a subtree, by scope.
///
/// Exact while no other thread is in an operation on the context; otherwise never negative, and no block is counted
/// twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub(crate) scopes: [ScopeUsage; Scope::COUNT],
    pub(crate) foreign: [ForeignUsage; ForeignKind::COUNT],
}

/// Bytes and blocks of one scope. Bytes are requested bytes: no header, no padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeUsage {
    /// Bytes allocated and not yet freed.
    pub live_bytes: u64,
    /// Blocks allocated and not yet freed.
    pub live_blocks: u64,
    /// The most bytes that were live at once; the true value lies within `peak_slack` of it.
    ///
    /// For several scopes or contexts: the sum of the peaks of those that still exist, an upper bound. A budget on top
    /// has the exact peak ([`BudgetUsage::high`](crate::BudgetUsage::high)).
    pub peak_bytes: u64,
    /// How far `peak_bytes` may be off; 0, exact, for a context that one thread used.
    pub peak_slack: u64,
    /// The most blocks seen live at once: a lower bound.
    pub peak_blocks: u64,
    /// All bytes ever allocated, growth of blocks included.
    pub total_bytes: u64,
    /// All blocks ever allocated.
    pub total_blocks: u64,
}

impl Usage {
    /// The account of `scope`.
    #[must_use]
    pub fn scope(&self, scope: Scope) -> ScopeUsage {
        self.scopes.get(scope.index()).copied().unwrap_or_default()
    }

    /// The foreign memory of `kind`, in no scope and not in [`total`](Usage::total).
    #[must_use]
    pub fn foreign(&self, kind: ForeignKind) -> ForeignUsage {
        self.foreign.get(kind.index()).copied().unwrap_or_default()
    }

    /// The foreign memory of all kinds together.
    #[must_use]
    pub fn foreign_total(&self) -> ForeignUsage {
        self.foreign.iter().fold(ForeignUsage::default(), |sum, one| sum.plus(one))
    }

    /// All scopes together, without foreign memory.
    #[must_use]
    pub fn total(&self) -> ScopeUsage {
        self.scopes.iter().fold(ScopeUsage::default(), |sum, one| sum.plus(one))
    }

    /// This account without a part that was live all the time, such as a bridge's own state. Stops at 0.
    #[must_use]
    pub fn without(&self, constant: &Self) -> Self {
        let mut rest = *self;
        for (a, b) in rest.scopes.iter_mut().zip(&constant.scopes) {
            *a = a.without(b);
        }
        for (a, b) in rest.foreign.iter_mut().zip(&constant.foreign) {
            *a = a.without(b);
        }
        rest
    }

    /// The sum of both, scope by scope.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        sum.add(other);
        sum
    }

    /// Most contexts use one or two scopes and no foreign memory.
    #[inline]
    pub(crate) fn add(&mut self, other: &Self) {
        for (a, b) in self.scopes.iter_mut().zip(&other.scopes) {
            if *b != ScopeUsage::default() {
                *a = a.plus(b);
            }
        }
        for (a, b) in self.foreign.iter_mut().zip(&other.foreign) {
            if !b.is_empty() {
                *a = a.plus(b);
            }
        }
    }
}

impl ScopeUsage {
    fn without(&self, constant: &Self) -> Self {
        let (bytes, blocks) = (constant.live_bytes, constant.live_blocks);
        Self {
            live_bytes: self.live_bytes.saturating_sub(bytes),
            live_blocks: self.live_blocks.saturating_sub(blocks),
            peak_bytes: self.peak_bytes.saturating_sub(bytes),
            peak_slack: self.peak_slack,
            peak_blocks: self.peak_blocks.saturating_sub(blocks),
            total_bytes: self.total_bytes.saturating_sub(bytes),
            total_blocks: self.total_blocks.saturating_sub(blocks),
        }
    }

    /// The sum of both. The peak is an upper bound; the slack reaches down to the lowest possible common peak.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let peak_bytes = self.peak_bytes.saturating_add(other.peak_bytes);
        let live_bytes = self.live_bytes.saturating_add(other.live_bytes);
        let lowest = |part: &Self| part.peak_bytes.saturating_sub(part.peak_slack);
        let at_least = lowest(self).max(lowest(other)).max(live_bytes);
        let slack = self.peak_slack.saturating_add(other.peak_slack);
        Self {
            live_bytes,
            live_blocks: self.live_blocks.saturating_add(other.live_blocks),
            peak_bytes,
            peak_slack: slack.max(peak_bytes.saturating_sub(at_least)),
            peak_blocks: self.peak_blocks.max(other.peak_blocks),
            total_bytes: self.total_bytes.saturating_add(other.total_bytes),
            total_blocks: self.total_blocks.saturating_add(other.total_blocks),
        }
    }
}
