//! The usage of one owner's callbacks, for callbacks that no bridge counts (LC6).

#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

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
}

/// The atomic counters of an [`OwnerUsage`].
pub(super) struct UsageCounters {
    scopes: [ScopeCounters; Scope::COUNT],
    total: ScopeCounters,
}

struct ScopeCounters {
    live_bytes: AtomicU64,
    live_blocks: AtomicU64,
    peak_bytes: AtomicU64,
    total_bytes: AtomicU64,
    total_blocks: AtomicU64,
}

impl UsageCounters {
    pub(super) const fn new() -> Self {
        Self {
            scopes: [const { ScopeCounters::new() }; Scope::COUNT],
            total: ScopeCounters::new(),
        }
    }

    pub(super) fn count(&self, scope: Option<Scope>, bytes: u64) {
        self.counters(scope)
            .for_each(|counters| counters.count(bytes));
    }

    pub(super) fn discount(&self, scope: Option<Scope>, bytes: u64) {
        self.counters(scope).for_each(|counters| {
            counters.live_bytes.fetch_sub(bytes, Relaxed);
            counters.live_blocks.fetch_sub(1, Relaxed);
        });
    }

    pub(super) fn resize(&self, scope: Option<Scope>, old: u64, new: u64) {
        self.counters(scope)
            .for_each(|counters| counters.resize(old, new));
    }

    pub(super) fn read(&self) -> OwnerUsage {
        let mut usage = OwnerUsage {
            total: self.total.read(),
            ..OwnerUsage::default()
        };
        for (read, counters) in usage.scopes.iter_mut().zip(&self.scopes) {
            *read = counters.read();
        }
        usage
    }

    fn counters(&self, scope: Option<Scope>) -> impl Iterator<Item = &ScopeCounters> {
        let of_scope = scope.and_then(|scope| self.scopes.get(scope.index()));
        of_scope.into_iter().chain([&self.total])
    }
}

impl ScopeCounters {
    const fn new() -> Self {
        Self {
            live_bytes: AtomicU64::new(0),
            live_blocks: AtomicU64::new(0),
            peak_bytes: AtomicU64::new(0),
            total_bytes: AtomicU64::new(0),
            total_blocks: AtomicU64::new(0),
        }
    }

    fn count(&self, bytes: u64) {
        self.grow(bytes);
        self.live_blocks.fetch_add(1, Relaxed);
        self.total_blocks.fetch_add(1, Relaxed);
    }

    /// As in an account: growing a block adds its growth to the total.
    fn resize(&self, old: u64, new: u64) {
        if new >= old {
            self.grow(new.saturating_sub(old));
        } else {
            self.live_bytes.fetch_sub(old.saturating_sub(new), Relaxed);
        }
    }

    fn grow(&self, bytes: u64) {
        let live = self
            .live_bytes
            .fetch_add(bytes, Relaxed)
            .wrapping_add(bytes);
        // A free that is counted before its allocation makes it negative for a moment.
        if live <= u64::MAX / 2 {
            self.peak_bytes.fetch_max(live, Relaxed);
        }
        self.total_bytes.fetch_add(bytes, Relaxed);
    }

    fn read(&self) -> ScopeUsage {
        let mut usage = ScopeUsage::default();
        let get = |count: &AtomicU64| Some(count.load(Relaxed)).filter(|n| *n <= u64::MAX / 2);
        usage.live_bytes = get(&self.live_bytes).unwrap_or(0);
        usage.live_blocks = get(&self.live_blocks).unwrap_or(0);
        usage.peak_blocks = usage.live_blocks;
        usage.peak_bytes = self.peak_bytes.load(Relaxed);
        usage.total_bytes = self.total_bytes.load(Relaxed);
        usage.total_blocks = self.total_blocks.load(Relaxed);
        usage
    }
}
