//! Profiles: what each call site allocated, has live, and had at the peak.
//!
//! ```text
//!   Site --> Counters: total, live, its own most, at the peak | labels: owner, command, frames
//!                                                                  |
//!            Label <- Label <- Label ..   each once, numbered: the table of frames of a written profile
//! ```
//! One lock for a profile, held for some twenty loads and stores: what is live at the peak is exact, whatever threads do.

mod collapsed;
mod dhat;
mod text;

use crate::call_sites::{Counters, Numbers, Profile, SiteRef, Sites};

pub use collapsed::{Measure, Weight};
pub(crate) use dhat::Process;
pub use text::FrameNames;

impl Sites {
    /// Calls `tell` for all sites with blocks, each with consistent numbers. No site: blocks without a recorded site.
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
        let nobody = numbers(&profile.anonymous);
        let mut answer = if nobody.total_blocks == 0 {
            Ok(())
        } else {
            tell(None, nobody)
        };
        self.for_each(&mut |_, site| {
            let Some(counters) = site.counters() else {
                return;
            };
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
