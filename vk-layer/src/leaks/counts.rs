#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use vk_report::state_file::stacks::COUNT_WORDS;

use crate::count::get;

/// Exact when no command runs. `vk_report::state_file::stacks` has the layout.
#[derive(Default)]
#[repr(C)]
pub(crate) struct LiveCount {
    live: AtomicU64,
    bytes: AtomicU64,
    total: AtomicU64,
    first: AtomicU64,
    first_bytes: AtomicU64,
    last: AtomicU64,
    last_bytes: AtomicU64,
    grew: AtomicU64,
    shrank: AtomicU64,
    /// The number of the last peak when the count changed last; what there was before that change.
    peak: AtomicU64,
    at_peak: AtomicU64,
    bytes_at_peak: AtomicU64,
}

const _: () = assert!(size_of::<LiveCount>() == COUNT_WORDS * 8);

impl LiveCount {
    pub(crate) fn add(&self, bytes: u64) {
        self.live.fetch_add(1, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        self.add_bytes(bytes);
    }

    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, bytes: u64) {
        self.live.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Runs before each change. Exact if one thread at a time changes the count; else blocks that other threads
    /// allocate or free at this moment may be missing.
    pub(super) fn keep_peak(&self, number: u64) {
        if get(&self.peak) != number && self.peak.swap(number, Ordering::Relaxed) != number {
            set(&self.at_peak, get(&self.live));
            set(&self.bytes_at_peak, get(&self.bytes));
        }
    }

    /// Alive, or at the peak of this number.
    pub(super) fn is_listed(&self, number: u64) -> bool {
        get(&self.live) != 0 || get(&self.peak) == number && get(&self.at_peak) != 0
    }

    pub(super) fn mark(&self, is_first: bool) {
        let (live, bytes) = (get(&self.live), get(&self.bytes));
        if is_first {
            set(&self.first, live);
            set(&self.first_bytes, bytes);
            set(&self.grew, 0);
            set(&self.shrank, 0);
        } else {
            let last = get(&self.last);
            self.grew.fetch_add(u64::from(live > last), Ordering::Relaxed);
            self.shrank.fetch_add(u64::from(live < last), Ordering::Relaxed);
        }
        set(&self.last, live);
        set(&self.last_bytes, bytes);
    }
}

fn set(count: &AtomicU64, value: u64) {
    count.store(value, Ordering::Relaxed);
}
