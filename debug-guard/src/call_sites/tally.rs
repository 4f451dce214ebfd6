//! Sums by call site over a walk of blocks, for leak lists. Allocates nothing.

use core::sync::atomic::Ordering;

use super::Sites;
use crate::block::SiteId;
use crate::os;

/// One walk. Its sums stand in the sites, so there is one walk at a time.
pub(crate) struct Tallying<'a> {
    sites: &'a Sites,
    /// The sums of blocks without a known site.
    anonymous: (u64, u64),
}

impl Sites {
    /// Begins a tally at zero. `None` during another one.
    pub(crate) fn tally(&self) -> Option<Tallying<'_>> {
        // A tally that a fork left behind has no owner.
        let me = os::forks().wrapping_add(1).max(1);
        let now = self.tallying.load(Ordering::Relaxed);
        if now == me {
            return None;
        }
        self.tallying
            .compare_exchange(now, me, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        for site in self.all() {
            site.tally.blocks.store(0, Ordering::Relaxed);
            site.tally.bytes.store(0, Ordering::Relaxed);
        }
        Some(Tallying {
            sites: self,
            anonymous: (0, 0),
        })
    }
}

impl Tallying<'_> {
    /// Counts a block of `bytes` that was allocated at `id`.
    pub(crate) fn add(&mut self, id: SiteId, bytes: u64) {
        match self.sites.site(id) {
            Some(site) => {
                site.tally.blocks.fetch_add(1, Ordering::Relaxed);
                site.tally.bytes.fetch_add(bytes, Ordering::Relaxed);
            }
            None => {
                self.anonymous = (
                    self.anonymous.0.saturating_add(1),
                    self.anonymous.1.saturating_add(bytes),
                )
            }
        }
    }

    /// Calls `tell` for each site with blocks: number, blocks, bytes. Number 0: the site is not known.
    pub(crate) fn for_each(&self, tell: &mut dyn FnMut(SiteId, u64, u64)) {
        for site in self.sites.all() {
            let blocks = site.tally.blocks.load(Ordering::Relaxed);
            if blocks != 0 {
                tell(site.id(), blocks, site.tally.bytes.load(Ordering::Relaxed));
            }
        }
        if self.anonymous.0 != 0 {
            tell(SiteId(0), self.anonymous.0, self.anonymous.1);
        }
    }
}

impl Drop for Tallying<'_> {
    fn drop(&mut self) {
        self.sites.tallying.store(0, Ordering::Release);
    }
}
