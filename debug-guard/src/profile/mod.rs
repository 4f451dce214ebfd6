//! What each call site took, has, and had when the process had most.
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
