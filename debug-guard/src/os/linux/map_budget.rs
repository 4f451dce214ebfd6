//! The mappings of the `mprotect` back end: each block takes two of a number that the whole process shares.

use core::sync::atomic::{AtomicIsize, Ordering};

use super::maps;
use super::total::number;
use crate::os::OsRefusal;

/// Mappings left for the rest of the program: libraries, threads, drivers.
const RESERVED_MAPPINGS: usize = 8192;

/// Runs of pages that may still be provided; `UNKNOWN` before the first query.
static REMAINING: AtomicIsize = AtomicIsize::new(UNKNOWN);
const UNKNOWN: isize = isize::MIN;

/// # Errors
/// [`OsRefusal::MapBudget`] when it is used up.
pub(super) fn reserve() -> Result<(), OsRefusal> {
    if REMAINING.load(Ordering::Relaxed) == UNKNOWN {
        let _ =
            REMAINING.compare_exchange(UNKNOWN, counted(), Ordering::Relaxed, Ordering::Relaxed);
    }
    match REMAINING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        (left > 0).then_some(left - 1)
    }) {
        Ok(_) => Ok(()),
        Err(_) => Err(OsRefusal::MapBudget),
    }
}

pub(super) fn release() {
    REMAINING.fetch_add(1, Ordering::Relaxed);
}

/// Two mappings a run: itself, and the rest of the mapping that it splits.
fn counted() -> isize {
    let spare = limit()
        .saturating_sub(maps::count_mappings())
        .saturating_sub(RESERVED_MAPPINGS);
    isize::try_from(spare / 2).unwrap_or(0)
}

/// `vm.max_map_count`; the kernel's default if it cannot be read.
fn limit() -> usize {
    let limit = number(c"/proc/sys/vm/max_map_count", b"");
    limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(65_530)
}
