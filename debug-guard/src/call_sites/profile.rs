//! The data of a profile: one lock, and counters for each call site.

use super::Sites;
use super::counters::{Counters, Peak};
use crate::block::SiteId;
use crate::lock::ForkSafeMutex;

/// The part of a profile that belongs to no site.
pub(crate) struct Profile {
    pub(crate) lock: ForkSafeMutex<()>,
    pub(crate) peak: Peak,
    /// Counters of blocks without a recorded site.
    pub(crate) anonymous: Counters,
}

impl Profile {
    pub(crate) fn new() -> Self {
        Self {
            lock: ForkSafeMutex::new(()),
            peak: Peak::default(),
            anonymous: Counters::default(),
        }
    }
}

impl Sites {
    /// Counts an allocation of `bytes` at `id`, with the guard's allocation number `now`. Does nothing without a profile.
    pub(crate) fn allocated(&self, id: SiteId, bytes: usize, now: u64) {
        self.count(id, |counters, peak| {
            counters.allocated(peak, bytes as u64, now)
        });
    }

    /// Counts a free of `bytes` that were allocated at `id` as number `born`, after `now` allocations.
    pub(crate) fn freed(&self, id: SiteId, bytes: usize, born: u64, now: u64) {
        self.count(id, |counters, peak| {
            counters.freed(peak, bytes as u64, (born, now))
        });
    }

    fn count(&self, id: SiteId, change: impl FnOnce(&Counters, &Peak)) {
        let Some(profile) = self.profile() else {
            return;
        };
        let site = self.site(id);
        let counters = site
            .as_ref()
            .and_then(|site| site.counters())
            .unwrap_or(&profile.anonymous);
        let _held = profile.lock.lock();
        change(counters, &profile.peak);
    }
}
