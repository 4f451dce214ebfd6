//! The seat of one region in a page or a slab: which generation sits there, and whether it still does.
//!
//! ```text
//!   state, 64 bits:   word: 32 | live: 1 | returned: 1 | unused: 6 | generation: 24
//!   extent, 64 bits:  granules: 32 | first granule: 32
//! ```
//!
//! One thread issues seats and takes them back: the *owner* (a shard's thread, or whoever has the pool's lock). It never needs more than
//! plain loads and stores. Any other thread may *claim* a live seat, by the one read-modify-write here, and thereby frees the region;
//! the owner settles that later. Two that free the same region are told apart, whoever they are, for the generation is part of what is
//! exchanged; and should the owner free a region while another claims it, the seat is given back once.

#![forbid(unsafe_code)]

use super::types::GiveError;
use crate::sync::{AtomicU64, Ordering};

/// The last generation that a seat is issued with.
pub(crate) const LAST_GENERATION: u32 = (1 << 24) - 1;

const LIVE: u32 = 1 << 31;
const RETURNED: u32 = 1 << 30;

/// The seat of one region.
pub(crate) struct Seat {
    state: AtomicU64,
    extent: AtomicU64,
}

/// What a seat says of its region, in granules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sitting {
    pub(crate) first: u32,
    pub(crate) granules: u32,
    pub(crate) word: u32,
}

const fn state(word: u32, mark: u32) -> u64 {
    (word as u64) << 32 | mark as u64
}

const fn word(state: u64) -> u32 {
    (state >> 32) as u32
}

const fn mark(state: u64) -> u32 {
    (state & u32::MAX as u64) as u32
}

/// Why that is not the state of a live region of `generation`, with the word that was expected.
#[cold]
fn refusal(found: u64, generation: u32) -> GiveError {
    let mark = mark(found);
    let seated = mark & LAST_GENERATION;
    if generation <= LAST_GENERATION && mark == LIVE | generation {
        return GiveError::Held;
    }
    if generation == 0 || generation > seated {
        GiveError::Foreign
    } else if generation == seated {
        GiveError::Double
    } else {
        GiveError::Stale
    }
}

impl Seat {
    /// A seat that was never issued.
    pub(crate) const fn new() -> Self {
        Self { state: AtomicU64::new(0), extent: AtomicU64::new(0) }
    }

    /// The owner gives the seat to a region: the generation it is issued with. `None` once all generations were: it is retired.
    #[inline]
    pub(crate) fn issue(&self, sitting: Sitting) -> Option<u32> {
        let generation = (mark(self.state.load(Ordering::Relaxed)) & LAST_GENERATION) + 1;
        if generation > LAST_GENERATION {
            return None;
        }
        self.extent.store((sitting.granules as u64) << 32 | sitting.first as u64, Ordering::Relaxed);
        self.state.store(state(sitting.word, LIVE | generation), Ordering::Relaxed);
        Some(generation)
    }

    /// The owner takes the seat back, if the region's word is `word`.
    #[inline]
    pub(crate) fn give(&self, generation: u32, word: u32) -> Result<Sitting, GiveError> {
        let found = self.state.load(Ordering::Relaxed);
        if found != state(word, LIVE | generation) || generation > LAST_GENERATION {
            return Err(refusal(found, generation));
        }
        self.state.store(state(0, generation), Ordering::Relaxed);
        Ok(self.with_extent(word))
    }

    /// Who sits here, if it is that generation.
    #[inline]
    pub(crate) fn sitting(&self, generation: u32) -> Result<Sitting, GiveError> {
        let found = self.state.load(Ordering::Relaxed);
        // Of a generation that fits 24 bits only a live region that nobody returned has this mark.
        if mark(found) != LIVE | generation || generation > LAST_GENERATION {
            return Err(refusal(found, generation));
        }
        Ok(self.with_extent(word(found)))
    }

    /// Who sits here, returned or not.
    #[inline]
    pub(crate) fn seated(&self) -> Option<(u32, Sitting)> {
        let found = self.state.load(Ordering::Relaxed);
        (mark(found) & LIVE != 0).then(|| (mark(found) & LAST_GENERATION, self.with_extent(word(found))))
    }

    /// Any thread keeps the word `to` with the region, if it was `from`. Answers with what it was.
    pub(crate) fn set_word(&self, generation: u32, from: u32, to: u32) -> Result<u32, GiveError> {
        let live = LIVE | generation;
        match self.state.compare_exchange(state(from, live), state(to, live), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(from),
            Err(_) => self.sitting(generation).map(|sitting| sitting.word),
        }
    }

    /// Any thread frees the region, once, if its word is `word`; the owner has to [settle](Seat::settle) it.
    pub(crate) fn claim(&self, generation: u32, word: u32) -> Result<Sitting, GiveError> {
        let (live, claimed) = (state(word, LIVE | generation), state(word, LIVE | RETURNED | generation));
        if generation > LAST_GENERATION {
            return Err(GiveError::Foreign);
        }
        let sitting = self.with_extent(word);
        // Relaxed: what orders the freeing thread's last use before the next owner's first is the mailbox.
        match self.state.compare_exchange(live, claimed, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(sitting),
            Err(found) => Err(refusal(found, generation)),
        }
    }

    /// The owner takes back a seat that another thread claimed. `None` where nobody did, or somebody was faster.
    pub(crate) fn settle(&self) -> Option<Sitting> {
        let found = self.state.load(Ordering::Relaxed);
        if mark(found) & (LIVE | RETURNED) != LIVE | RETURNED {
            return None;
        }
        let sitting = self.with_extent(word(found));
        self.state.store(state(0, mark(found) & LAST_GENERATION), Ordering::Relaxed);
        Some(sitting)
    }

    #[inline]
    fn with_extent(&self, word: u32) -> Sitting {
        let extent = self.extent.load(Ordering::Relaxed);
        Sitting { first: (extent & u32::MAX as u64) as u32, granules: (extent >> 32) as u32, word }
    }
}

#[cfg(test)]
impl Seat {
    /// As if it had been issued that often.
    pub(crate) fn age(&self, generation: u32) {
        self.state.store(state(0, generation), Ordering::Relaxed);
    }

    /// As if it had been issued as often as it can be.
    pub(crate) fn wear_out(&self) {
        self.age(LAST_GENERATION);
    }
}
