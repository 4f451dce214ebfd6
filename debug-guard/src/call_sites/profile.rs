//! The data of a profile: one lock, and counters and labels for each call site.

use core::ptr::NonNull;

use super::Sites;
use super::arena::SiteArena;
use super::counters::{Counters, Peak};
use super::label::{LabelKind, Labels};
use super::requester::{SiteView, line_hash};
use super::trie::NoRoom;
use crate::block::SiteId;
use crate::lock::ForkSafeSpinLock;

/// The part of a profile that belongs to no site.
#[derive(Default)]
pub(crate) struct Profile {
    pub(crate) lock: ForkSafeSpinLock,
    pub(crate) peak: Peak,
    /// Counters of blocks without a recorded site.
    pub(crate) anonymous: Counters,
    pub(crate) labels: Labels,
}

impl Profile {
    /// Labels the counters of a new site.
    ///
    /// # Safety
    /// `counters` are of [`Counters::put`] with as many labels as [`lines`] tells, and no other thread knows them yet.
    pub(super) unsafe fn label(
        &self,
        arena: &SiteArena,
        counters: NonNull<Counters>,
        (id, view): (SiteId, SiteView<'_>),
        keep: usize,
    ) -> Result<(), NoRoom> {
        let mut at = 0_usize;
        let mut label = |line: LabelKind, hash: u64| {
            let number = self.labels.number(arena, line, hash, keep)?;
            // SAFETY: `at` counts up to `lines(view)`; the rest is the caller's promise.
            unsafe { Counters::set_label(counters, at, number) };
            at = at.wrapping_add(1);
            Ok::<(), NoRoom>(())
        };
        label(LabelKind::Owner(id), view.owner_hash())?;
        if let Some(command) = view.command {
            label(LabelKind::Command(command), line_hash(command, 0))?;
        }
        for frame in view.frames {
            label(LabelKind::Frame(*frame), line_hash("", *frame))?;
        }
        Ok(())
    }
}

/// The number of labels of a site: its owner, the command if there is one, its frames.
pub(super) fn lines(command: bool, frames: usize) -> usize {
    frames
        .saturating_add(1)
        .saturating_add(usize::from(command))
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
