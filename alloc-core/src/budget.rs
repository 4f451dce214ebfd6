#![forbid(unsafe_code)]

/// A limit on the live bytes of a context and all contexts below it.
///
/// Limits nest: an allocation must fit every budget above it. No instant exceeds a limit that is not
/// [soft](Self::soft). Threads lease slices of it, so a refusal may come early by at most one slice for each (context,
/// scope) for which another thread has a lease. An idle thread keeps its lease until it allocates or frees there,
/// [folds](crate::fold_thread) or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias("quota", "limit"))]
pub struct Budget {
    pub(crate) limit: u64,
    pub(crate) kind: BudgetKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum BudgetKind {
    Leased = 0,
    Exact = 1,
    Soft = 2,
}

impl BudgetKind {
    pub(crate) const fn from_raw(raw: u8) -> Self {
        match raw {
            1 => Self::Exact,
            2 => Self::Soft,
            _ => Self::Leased,
        }
    }
}

/// A budget's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetUsage {
    /// The limit in bytes.
    pub limit: u64,
    /// Live bytes below, and leases of threads.
    pub charged: u64,
    /// The most ever charged: an upper bound of the true peak, exact with [`Budget::exact`].
    pub high: u64,
    /// The lease size in bytes; 0 for an exact budget.
    pub slice: u64,
}

impl Budget {
    /// At most `bytes` live, leased in slices of `bytes / 256`, 64 KiB at most.
    #[must_use]
    pub const fn limit(bytes: u64) -> Self {
        Self { limit: bytes, kind: BudgetKind::Leased }
    }

    /// At most `bytes` live, without slices: no refusal comes early. Every operation acquires the budget's lock.
    #[must_use]
    pub const fn exact(bytes: u64) -> Self {
        Self { limit: bytes, kind: BudgetKind::Exact }
    }

    /// A watermark that refuses nothing: [`BudgetUsage::high`] has the most charged. Leased as [`limit`](Self::limit)
    /// is.
    #[must_use]
    pub const fn soft(bytes: u64) -> Self {
        Self { limit: bytes, kind: BudgetKind::Soft }
    }

    pub(crate) const fn slice(&self) -> u64 {
        let part = self.limit / 256;
        if matches!(self.kind, BudgetKind::Exact) {
            0
        } else if part > crate::account::FOLD_MAX as u64 {
            crate::account::FOLD_MAX as u64
        } else {
            part
        }
    }
}

/// Near the limit every byte counts.
pub(crate) const fn lease_extra(slice: u64, room: u64, need: u64) -> u64 {
    if room >= need.saturating_add(slice.saturating_mul(16)) { slice / 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_bounded() {
        assert_eq!(Budget::limit(0).slice(), 0);
        assert_eq!(Budget::limit(256 * 1024).slice(), 1024);
        assert_eq!(Budget::limit(u64::MAX).slice(), 64 * 1024);
        assert_eq!(Budget::exact(1 << 40).slice(), 0);
    }

    #[test]
    fn nothing_extra_near_the_limit() {
        assert_eq!(lease_extra(1000, 16_099, 100), 0);
        assert_eq!(lease_extra(1000, 16_100, 100), 500);
        assert_eq!(lease_extra(u64::MAX, u64::MAX, u64::MAX), u64::MAX / 2);
        assert_eq!(lease_extra(0, 0, u64::MAX), 0);
    }
}
