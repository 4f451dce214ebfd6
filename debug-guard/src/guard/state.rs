//! What a guard keeps, in memory of the allocator behind it.

use core::alloc::Layout;
use core::ptr::NonNull;

use alloc_core::{HostAllocator, Scope};

use super::error::GuardError;
use super::options::GuardOptions;
use super::stats::GuardStats;
use super::tally::{Count, Tally};
use crate::mode::{BackEnd, Mode, Placement};

/// A guard's state. Never moves: the signal handler knows its address.
pub(crate) struct Core {
    pub(crate) options: GuardOptions,
    pub(crate) tally: Tally,
}

impl Core {
    pub(super) fn make(memory: &dyn HostAllocator, options: GuardOptions) -> Result<NonNull<Self>, GuardError> {
        let layout = Layout::new::<Self>();
        let refused = GuardError::NoHostMemory { bytes: layout.size() };
        let place = memory.allocate(layout, Scope::Instance).map_err(|_| refused)?.cast::<Self>();
        // SAFETY: a block of this layout, nobody else's.
        unsafe { place.write(Self { options, tally: Tally::new() }) };
        Ok(place)
    }

    /// # Safety
    /// `core` came from [`make`](Self::make) with the same `memory` and is used no more.
    pub(super) unsafe fn destroy(core: NonNull<Self>, memory: &dyn HostAllocator) {
        // SAFETY: live, and the caller's alone.
        unsafe { core.drop_in_place() };
        // SAFETY: taken in `make` with this layout and scope.
        unsafe { memory.deallocate(core.cast(), Layout::new::<Self>(), Scope::Instance) };
    }

    /// True when a block may be fenced with its last byte against the page behind.
    pub(super) fn fences(&self) -> bool {
        self.options.may_use(&[Mode::Sampled, Mode::Fence, Mode::Strict]) && self.options.placement != Placement::Left
    }

    pub(super) fn stats(&self) -> GuardStats {
        let sum = |count| self.tally.sum(count);
        let taken = [sum(Count::FencedTaken), sum(Count::CookieTaken), sum(Count::OffTaken)];
        let given = [sum(Count::FencedGiven), sum(Count::CookieGiven), sum(Count::OffGiven)];
        let bytes = [sum(Count::FencedTakenBytes), sum(Count::CookieTakenBytes), sum(Count::OffTakenBytes)].iter().sum::<u64>();
        let given_bytes =
            [sum(Count::FencedGivenBytes), sum(Count::CookieGivenBytes), sum(Count::OffGivenBytes)].iter().sum::<u64>();
        let [guarded, cookies, off] = taken;
        let [guarded_given, ..] = given;
        GuardStats {
            back_end: BackEnd::Cookies,
            guarded,
            cookies,
            off,
            unguarded: 0,
            live: taken.iter().sum::<u64>().saturating_sub(given.iter().sum()),
            live_bytes: bytes.saturating_sub(given_bytes),
            bytes,
            live_guarded: guarded.saturating_sub(guarded_given),
            reports: 0,
            lost: 0,
            notices: 0,
            quarantined: 0,
            pages: 0,
            reserved: 0,
            stacks: 0,
            whole_stacks: 0,
        }
    }
}
