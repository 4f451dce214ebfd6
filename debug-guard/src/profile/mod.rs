//! What each call site took, has, and had when the process had most.
//!
//! ```text
//!   Site --> Counters: total, live, its own most, at the peak | labels: owner, command, frames
//!                                                                  |
//!            Label <- Label <- Label ..   each once, numbered: the table of frames of a written profile
//! ```
//! One lock for a profile, held for some twenty loads and stores: what is live at the peak is exact, whatever threads do.

mod collapsed;
mod counters;
mod dhat;
mod label;
mod text;

use core::ptr::NonNull;

use crate::block::SiteId;
use crate::sites::{Arena, NoRoom, SiteRef, SiteView, Sites, line_hash};

use crate::lock::Lock;
pub use collapsed::{Measure, Weight};
pub(crate) use counters::Counters;
use counters::{Numbers, Peak};
pub(crate) use dhat::Process;
use label::{Labels, Line};
pub use text::FrameNames;

/// The part of a profile that belongs to no site.
pub(crate) struct Profile {
    lock: Lock,
    peak: Peak,
    /// Of blocks for whose site there was no room.
    nobody: Counters,
    labels: Labels,
}

impl Profile {
    pub(crate) const fn new() -> Self {
        Self { lock: Lock::new(), peak: Peak::new(), nobody: Counters::new(0), labels: Labels::new() }
    }

    /// Labels the counters of a new site.
    ///
    /// # Safety
    /// `counters` are of [`Counters::put`] with as many labels as [`lines`] tells, and nobody else knows of them yet.
    pub(crate) unsafe fn label(
        &self,
        arena: &Arena,
        counters: NonNull<Counters>,
        (id, view): (SiteId, SiteView<'_>),
        keep: usize,
    ) -> Result<(), NoRoom> {
        let mut at = 0_usize;
        let mut label = |line: Line, hash: u64| {
            let number = self.labels.number(arena, line, hash, keep)?;
            // SAFETY: `at` counts up to `lines(view)`; the rest is the caller's promise.
            unsafe { Counters::set_label(counters, at, number) };
            at = at.wrapping_add(1);
            Ok::<(), NoRoom>(())
        };
        label(Line::Owner(id), view.owner_hash())?;
        if let Some(command) = view.command {
            label(Line::Command(command), line_hash(command, 0))?;
        }
        for frame in view.frames {
            label(Line::Frame(*frame), line_hash("", *frame))?;
        }
        Ok(())
    }
}

/// How many labels a site has that is made of this: its owner, the command if there is one, its frames.
pub(crate) fn lines(command: bool, frames: usize) -> usize {
    frames.saturating_add(1).saturating_add(usize::from(command))
}

impl Sites {
    /// A block of `bytes` was taken at `id`, as the guard's allocation number `now`. Does nothing where no profile is kept.
    pub(crate) fn allocated(&self, id: SiteId, bytes: usize, now: u64) {
        self.count(id, |counters, peak| counters.allocated(peak, bytes as u64, now));
    }

    /// A block of `bytes` that was taken at `id`, as allocation number `born`, went, after `now` allocations.
    pub(crate) fn freed(&self, id: SiteId, bytes: usize, born: u64, now: u64) {
        self.count(id, |counters, peak| counters.freed(peak, bytes as u64, (born, now)));
    }

    fn count(&self, id: SiteId, change: impl FnOnce(&Counters, &Peak)) {
        let Some(profile) = self.profile() else { return };
        let site = self.site(id);
        let counters = site.as_ref().and_then(|site| site.counters()).unwrap_or(&profile.nobody);
        let _held = profile.lock.lock();
        change(counters, &profile.peak);
    }

    /// All sites that took anything, with their numbers as of one moment each. No site: of those for which there was no room.
    fn for_each_counted(
        &self,
        profile: &Profile,
        now: u64,
        tell: &mut dyn FnMut(Option<SiteRef<'_>>, Numbers) -> core::fmt::Result,
    ) -> core::fmt::Result {
        let numbers = |counters: &Counters| {
            let _held = profile.lock.lock();
            counters.numbers(&profile.peak, now)
        };
        let nobody = numbers(&profile.nobody);
        let mut answer = if nobody.total_blocks == 0 { Ok(()) } else { tell(None, nobody) };
        self.for_each(&mut |_, site| {
            let Some(counters) = site.counters() else { return };
            let numbers = numbers(counters);
            if numbers.total_blocks != 0 && answer.is_ok() {
                answer = tell(Some(site), numbers);
            }
        });
        answer
    }
}

#[cfg(test)]
mod tests;
