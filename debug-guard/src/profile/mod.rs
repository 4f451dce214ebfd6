//! Profiles: what each call site allocated, has live, and had at the peak.
//!
//! One lock for a profile, held for some twenty loads and stores: what is live at the peak is exact, whatever threads do.

mod collapsed;
mod dhat;
mod text;

use crate::call_sites::{Counters, Numbers, Profile, SiteRef, Sites};

pub use collapsed::{Measure, Weight};
pub(crate) use dhat::Process;
pub use text::FrameNames;

impl Sites {
    /// All sites with blocks, each with consistent numbers. No site: blocks without a recorded site.
    fn counted<'a>(
        &'a self,
        profile: &'a Profile,
        now: u64,
    ) -> impl Iterator<Item = (Option<SiteRef<'a>>, Numbers)> {
        let numbers = move |counters: &Counters| {
            let _held = profile.lock.lock();
            counters.numbers(&profile.peak, now)
        };
        let anonymous = core::iter::once_with(move || (None, numbers(&profile.anonymous)));
        let sites = self
            .all()
            .filter_map(move |site| Some((Some(site), numbers(site.counters()?))));
        anonymous
            .chain(sites)
            .filter(|(_, numbers)| numbers.total_blocks != 0)
    }
}

#[cfg(test)]
mod tests;
