//! How much memory a guard may use if the options do not say it.

use crate::os;

/// Bytes for fenced blocks if the system does not report its memory: 1 GiB.
const UNKNOWN: u64 = 1 << 30;

/// The maximum number of pages with memory for fenced blocks.
pub(super) fn pages(max_guarded_bytes: Option<u64>) -> usize {
    let bytes =
        max_guarded_bytes.unwrap_or_else(|| os::total_memory().map_or(UNKNOWN, |total| total / 4));
    let pages = bytes
        .checked_div(os::page_size() as u64)
        .unwrap_or(0)
        .max(1);
    usize::try_from(pages).unwrap_or(usize::MAX)
}

/// Pages of addresses for sampled blocks: enough that a freed block stays inaccessible for long.
pub(super) fn sampled_pages(slots: u32) -> usize {
    usize::try_from(slots)
        .unwrap_or(usize::MAX)
        .saturating_mul(64)
        .max(1 << 14)
}
