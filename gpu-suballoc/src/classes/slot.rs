//! The slot of one region in a page or a slab: its generation, and whether the region lives.
//!
//! ```text
//!   state, 64 bits:   user data: 32 | live: 1 | remotely freed: 1 | unused: 6 | generation: 24
//!   extent, 64 bits:  granules: 32 | first granule: 32
//! ```
//!
//! One thread issues slots and frees them: the *owner* (a shard's thread, or the holder of the pool's lock), with plain loads and stores
//! only. Any other thread may *claim* a live slot, by the one read-modify-write here, and thereby frees the region; the owner reclaims the
//! slot later. A double free is detected from any threads, because the exchanged value contains the generation; and if the owner frees a
//! region while another thread claims it, the slot is freed once.

#![forbid(unsafe_code)]

use super::types::FreeError;
use crate::sync::{AtomicU64, Ordering};

/// The last generation that a slot is issued with.
pub(crate) const LAST_GENERATION: u32 = (1 << 24) - 1;

const LIVE: u32 = 1 << 31;
const REMOTE_FREED: u32 = 1 << 30;

/// The slot of one region.
pub(crate) struct SlotState {
    state: AtomicU64,
    extent: AtomicU64,
}

/// The extent of a slot's region, in granules, and its user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotExtent {
    pub(crate) first: u32,
    pub(crate) granules: u32,
    pub(crate) user_data: u32,
}

const fn state(user_data: u32, mark: u32) -> u64 {
    (user_data as u64) << 32 | mark as u64
}

const fn user_data(state: u64) -> u32 {
    (state >> 32) as u32
}

const fn mark(state: u64) -> u32 {
    (state & u32::MAX as u64) as u32
}

const fn extent_of(extent: u64, user_data: u32) -> SlotExtent {
    SlotExtent {
        first: (extent & u32::MAX as u64) as u32,
        granules: (extent >> 32) as u32,
        user_data,
    }
}

/// Why a state is not that of a live region with this generation and the expected user data.
#[cold]
fn free_error(found: u64, generation: u32) -> FreeError {
    let mark = mark(found);
    let issued = mark & LAST_GENERATION;
    if generation <= LAST_GENERATION && mark == LIVE | generation {
        return FreeError::Held;
    }
    if generation == 0 || generation > issued {
        FreeError::Foreign
    } else if generation == issued {
        FreeError::Double
    } else {
        FreeError::Stale
    }
}

impl SlotState {
    /// A slot that was never issued.
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            extent: AtomicU64::new(0),
        }
    }

    /// The owner issues the slot to a region. Returns the generation; `None` once all generations are used up.
    #[inline]
    pub(crate) fn issue(&self, extent: SlotExtent) -> Option<u32> {
        let generation = (mark(self.state.load(Ordering::Relaxed)) & LAST_GENERATION) + 1;
        if generation > LAST_GENERATION {
            return None;
        }
        // Release, both: a thread that sees this extent sees that the region before was freed, and one that sees this state sees this extent.
        self.extent.store(
            (extent.granules as u64) << 32 | extent.first as u64,
            Ordering::Release,
        );
        self.state.store(
            state(extent.user_data, LIVE | generation),
            Ordering::Release,
        );
        Some(generation)
    }

    /// The owner frees the slot, if the region has `user_data`.
    #[inline]
    pub(crate) fn free(&self, generation: u32, user_data: u32) -> Result<SlotExtent, FreeError> {
        let found = self.state.load(Ordering::Relaxed);
        if found != state(user_data, LIVE | generation) || generation > LAST_GENERATION {
            return Err(free_error(found, generation));
        }
        self.state.store(state(0, generation), Ordering::Relaxed);
        Ok(self.with_extent(user_data))
    }

    /// The extent of the live region, if it has that generation.
    #[inline]
    pub(crate) fn live_extent(&self, generation: u32) -> Result<SlotExtent, FreeError> {
        let found = self.state.load(Ordering::Relaxed);
        // With a generation of 24 bits, only a live region that was not claimed has this mark.
        if mark(found) != LIVE | generation || generation > LAST_GENERATION {
            return Err(free_error(found, generation));
        }
        Ok(self.with_extent(user_data(found)))
    }

    /// The generation and extent of the live, unclaimed region, from any thread; `None` also if the slot changes at this moment.
    #[inline]
    pub(crate) fn current(&self) -> Option<(u32, SlotExtent)> {
        let found = self.state.load(Ordering::Acquire);
        if mark(found) & (LIVE | REMOTE_FREED) != LIVE {
            return None;
        }
        let extent = self.extent.load(Ordering::Acquire);
        // An unchanged state: the extent belongs to it.
        let same = self.state.load(Ordering::Relaxed) == found;
        same.then(|| {
            (
                mark(found) & LAST_GENERATION,
                extent_of(extent, user_data(found)),
            )
        })
    }

    /// Any thread stores the user data `to`, if it was `from`. Returns the previous user data.
    pub(crate) fn set_user_data(
        &self,
        generation: u32,
        from: u32,
        to: u32,
    ) -> Result<u32, FreeError> {
        let live = LIVE | generation;
        match self.state.compare_exchange(
            state(from, live),
            state(to, live),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            Ok(_) => Ok(from),
            Err(_) => self.live_extent(generation).map(|extent| extent.user_data),
        }
    }

    /// Any thread frees the region, once, if it has `user_data`; the owner has to [reclaim](SlotState::reclaim) the slot.
    pub(crate) fn claim(&self, generation: u32, user_data: u32) -> Result<SlotExtent, FreeError> {
        let (live, claimed) = (
            state(user_data, LIVE | generation),
            state(user_data, LIVE | REMOTE_FREED | generation),
        );
        if generation > LAST_GENERATION {
            return Err(FreeError::Foreign);
        }
        let extent = self.with_extent(user_data);
        // Relaxed: `RemoteFreeList` orders the freeing thread's last use before the next region's first.
        match self
            .state
            .compare_exchange(live, claimed, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => Ok(extent),
            Err(found) => Err(free_error(found, generation)),
        }
    }

    /// The owner frees a slot that another thread claimed. `None` if it was not claimed, or is reclaimed already.
    pub(crate) fn reclaim(&self) -> Option<SlotExtent> {
        let found = self.state.load(Ordering::Relaxed);
        if mark(found) & (LIVE | REMOTE_FREED) != LIVE | REMOTE_FREED {
            return None;
        }
        let extent = self.with_extent(user_data(found));
        self.state
            .store(state(0, mark(found) & LAST_GENERATION), Ordering::Relaxed);
        Some(extent)
    }

    #[inline]
    fn with_extent(&self, user_data: u32) -> SlotExtent {
        extent_of(self.extent.load(Ordering::Relaxed), user_data)
    }
}

#[cfg(test)]
impl SlotState {
    /// As if it had been issued that often.
    pub(crate) fn age(&self, generation: u32) {
        self.state.store(state(0, generation), Ordering::Relaxed);
    }

    /// As if it had been issued as often as it can be.
    pub(crate) fn wear_out(&self) {
        self.age(LAST_GENERATION);
    }
}
