//! Limits on what a context and everything below it may hold: values and arithmetic only.

#![forbid(unsafe_code)]

/// A hard limit on the live bytes of a context and all contexts below it.
///
/// Limits nest: an allocation must fit every budget above it. The limit is never exceeded, at no instant. Threads lease a
/// slice of it at a time, so a refusal may come early by at most one slice for each (context, scope) that another thread
/// holds open; see [`HostError::OverBudget`](crate::HostError::OverBudget).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pub(crate) limit: u64,
    pub(crate) exact: bool,
}

/// What is known of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BudgetUsage {
    /// The limit in bytes.
    pub limit: u64,
    /// Bytes charged: everything live below, and what threads hold leased.
    pub charged: u64,
    /// The most that was ever charged: an upper bound of the true peak, exact with [`Budget::exact`].
    pub high: u64,
    /// The lease size in bytes; 0 for an exact budget.
    pub slice: u64,
}

impl Budget {
    /// At most `bytes` live, leased in slices of `bytes / 256`, 64 KiB at most.
    #[must_use]
    pub const fn limit(bytes: u64) -> Self {
        Self { limit: bytes, exact: false }
    }

    /// At most `bytes` live, without slices: no refusal ever comes early. Every operation takes the budget's lock.
    #[must_use]
    pub const fn exact(bytes: u64) -> Self {
        Self { limit: bytes, exact: true }
    }

    pub(crate) const fn slice(&self) -> u64 {
        let part = self.limit / 256;
        if self.exact {
            0
        } else if part > crate::account::FOLD_MAX as u64 {
            crate::account::FOLD_MAX as u64
        } else {
            part
        }
    }
}

/// What may be leased on top of `need` where a budget has `room` left: half a slice, or nothing near the limit, where every
/// byte counts.
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
