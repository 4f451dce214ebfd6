//! How much a guard takes where nobody said it.

use crate::os;

/// Allowed for fenced blocks where the system does not say how much memory it has: 1 GiB.
const UNKNOWN: u64 = 1 << 30;

/// How many pages may hold memory for fenced blocks.
pub(super) fn pages(max_guarded_bytes: Option<u64>) -> usize {
    let bytes =
        max_guarded_bytes.unwrap_or_else(|| os::total_memory().map_or(UNKNOWN, |total| total / 4));
    let pages = bytes
        .checked_div(os::page_size() as u64)
        .unwrap_or(0)
        .max(1);
    usize::try_from(pages).unwrap_or(usize::MAX)
}

/// How many pages of addresses the pool of sampled blocks gets: so many that a freed block stays out of reach for long.
pub(super) fn sampled_pages(slots: u32) -> usize {
    usize::try_from(slots)
        .unwrap_or(usize::MAX)
        .saturating_mul(64)
        .max(1 << 14)
}
